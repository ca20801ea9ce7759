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
    // Times begin at the earliest request, wherever it is in the trace.
    assert_eq!(times(&[10, 4, 7], 3).unwrap(), [0, 3, 6]);
}

#[test]
fn what_comes_too_late_is_counted_all_the_same() {
    let trace = trace(&[5, 6, 9, 3, 12]);
    let reader = Reader::new(&trace[..], &Options::default()).unwrap();
    let mut sorted = Sorted::lenient(reader, 2);
    let mut times = Vec::new();
    while let Some(record) = sorted.next().unwrap() {
        times.push(record.time / 1_000);
    }
    assert_eq!(times, [0, 1, 0, 4, 7]);
    assert_eq!(sorted.origin() % 1_000_000, 5_000);
}

#[test]
fn requests_older_than_the_first_one_begin_with_it_where_nothing_is_sorted() {
    let trace = trace(&[5, 3, 9]);
    let mut reader = Reader::new(&trace[..], &Options::default()).unwrap();
    let times: Vec<_> =
        std::iter::from_fn(|| reader.next().unwrap()).map(|record| record.time / 1_000).collect();
    assert_eq!(times, [0, 0, 4]);
}

#[test]
fn one_that_comes_too_late_is_an_error_with_its_place() {
    let error = times(&[0, 5, 6, 7, 3], 2).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 5: the clock ran back by 3000 ns, past 2 requests that were held back to sort them"
    );
}
