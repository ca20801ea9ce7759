//! Requests that come out of order.

use forebay_trace::{Options, Reader, Sorted, TraceError};

fn trace(micros: &[u64]) -> Vec<u8> {
    let line = |time: &u64| format!("1,R,{time},512,{}\n", 1_577_808_000_000_000 + time);
    micros.iter().map(line).collect::<String>().into_bytes()
}

fn times(micros: &[u64], window: usize) -> Result<Vec<u64>, TraceError> {
    let trace = trace(micros);
    let mut sorted = Sorted::new(Reader::new(&trace[..], &Options::default())?, window);
    let mut times = Vec::new();
    while let Some(record) = sorted.next()? {
        times.push(record.time / 1_000);
    }
    Ok(times)
}

#[test]
fn requests_come_in_the_order_of_their_times() {
    assert_eq!(times(&[0, 5, 3, 4, 9, 7], 4).unwrap(), [0, 3, 4, 5, 7, 9]);
    assert_eq!(times(&[0, 0, 1], 1).unwrap(), [0, 0, 1]);
}

#[test]
fn one_that_comes_too_late_is_an_error_with_its_place() {
    let error = times(&[0, 5, 6, 7, 3], 2).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 5: the clock ran back by 3000 ns, past 2 requests that were held back to sort them"
    );
}
