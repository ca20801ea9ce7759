//! The laws that a OneNAND must keep, and the numbers that follow from its formulas.

use super::*;

const US: u64 = 1_000;

/// Loads of 27 us, pages fetched in `transfer_us`, and nothing else.
fn bare(transfer_us: u64, overlap: bool) -> OneNandParameters {
    OneNandParameters {
        load_ns: 27 * US,
        transfer_ns: transfer_us * US,
        command_ns: 0,
        register_ns: 0,
        polls: true,
        overlap,
        program_ns: 220 * US,
        jitter_sigma_ppm: 0,
    }
}

fn took(device: &mut OneNand, access: DeviceAccess) -> u64 {
    let completion = device.service(Instant::ZERO, &access);
    completion.done.since(completion.start).as_nanos()
}

/// A read of the first `pages` pages of a device whose buffers are empty.
fn read_pages(parameters: OneNandParameters, pages: u64) -> u64 {
    took(&mut OneNand::new(parameters, 1), DeviceAccess::read(0, pages * 4))
}

/// MB/s of long reads.
fn sustained(parameters: OneNandParameters) -> u64 {
    let pages = 10_000;
    pages * 2_048 * 1_000 / read_pages(parameters, pages)
}

#[test]
fn a_read_with_overlap_takes_the_greater_of_load_and_transfer_a_page() {
    for (load, transfer) in [(27, 40), (30, 27), (25, 110), (30, 30)] {
        let parameters = OneNandParameters {
            load_ns: load * US,
            command_ns: 50 * US,
            register_ns: 2 * US,
            ..bare(transfer, true)
        };
        for pages in [1, 2, 3, 4, 64, 10_000] {
            // o + tR + (n - 1) * max(tR, x) + x + n * e
            let time = 50 + load + (pages - 1) * load.max(transfer) + transfer + pages * 2;
            assert_eq!(read_pages(parameters, pages), time * US, "{load} {transfer} {pages}");
        }
    }
}

#[test]
fn a_read_without_overlap_takes_load_and_transfer_a_page() {
    let parameters =
        OneNandParameters { command_ns: 50 * US, register_ns: 2 * US, ..bare(40, false) };
    for pages in [1, 2, 3, 64, 10_000] {
        // o + n * (tR + x + 4 * e')
        assert_eq!(read_pages(parameters, pages), (50 + pages * (27 + 40 + 4 * 2)) * US);
    }
}

#[test]
fn overlap_sustains_62_to_68_megabytes_a_second() {
    let with = |load: u64, transfer| {
        sustained(OneNandParameters { load_ns: load * US, ..bare(transfer, true) })
    };
    assert_eq!((with(30, 27), with(30, 30), with(30, 33)), (68, 68, 62));
}

#[test]
fn without_overlap_it_is_half_of_that_and_less_with_the_asynchronous_bus() {
    let with = |load: u64, transfer, register_us: u64| {
        let parameters = OneNandParameters { load_ns: load * US, ..bare(transfer, false) };
        sustained(OneNandParameters { register_ns: register_us * US, ..parameters })
    };
    assert_eq!((with(27, 40, 0), with(30, 27, 1), with(30, 33, 1)), (30, 33, 30));
    assert_eq!((with(30, 105, 0), with(30, 112, 0)), (15, 14));
}

#[test]
fn four_kilobytes_by_sectors_take_what_the_board_of_2007_needs() {
    // 2 * (27 + 40..80) + 50..70, as far as the device and its driver are concerned.
    let time = |transfer, command: u64| {
        let parameters = OneNandParameters { command_ns: command * US, ..bare(transfer, false) };
        read_pages(parameters, 2) / US
    };
    assert_eq!((time(40, 50), time(80, 70)), (184, 284));
}

#[test]
fn a_page_that_a_buffer_holds_is_not_loaded_again() {
    for overlap in [false, true] {
        let mut device = OneNand::new(bare(40, overlap), 1);
        let mut sector = |sector| took(&mut device, DeviceAccess::read(sector, 1)) / US;
        // One load for the four sectors of a page.
        assert_eq!([0, 1, 2, 3].map(&mut sector), [37, 10, 10, 10], "{overlap}");
        // The other buffer takes the second page, and the first one stays.
        assert_eq!([4, 0, 4, 0].map(&mut sector), [37, 10, 10, 10], "{overlap}");
        // A third page takes the place of the page that was used less recently.
        assert_eq!([8, 0, 4, 8].map(&mut sector), [37, 10, 37, 37], "{overlap}");
    }
}

#[test]
fn a_long_read_leaves_its_last_two_pages_in_the_buffers() {
    for (first, pages) in [(0, 2), (0, 3), (0, 4), (1, 7), (5, 100)] {
        let after = |page: u64| {
            let mut device = OneNand::new(bare(40, true), 1);
            took(&mut device, DeviceAccess::read(first * 4, pages * 4));
            took(&mut device, DeviceAccess::read(page * 4, 4)) / US
        };
        let last = first + pages - 1;
        assert_eq!((after(last), after(last - 1)), (40, 40), "{first} {pages}");
        assert_eq!(after(last + 1), 67);
        if pages > 2 {
            assert_eq!(after(last - 2), 67);
        }
    }
}

#[test]
fn held_pages_save_their_loads_in_a_longer_read() {
    let again = |overlap, first: u64| {
        let mut device = OneNand::new(bare(40, overlap), 1);
        took(&mut device, DeviceAccess::read(0, 8));
        took(&mut device, DeviceAccess::read(first * 4, 16)) / US
    };
    // Pages 0 and 1 are held: four pages from 0 need two loads, from 1 three, from 2 four.
    assert_eq!([0, 1, 2].map(|first| again(false, first)), [214, 241, 268]);
    // With overlap only the first load is ever waited for.
    assert_eq!([0, 1, 2].map(|first| again(true, first)), [160, 160, 187]);
}

/// What the device does, page after page, without the shortcut over the pages in the middle.
fn page_by_page(
    parameters: OneNandParameters,
    held: &mut Vec<u64>,
    sectors: std::ops::Range<u64>,
) -> u64 {
    let (mut begun, mut fetched) = (0, 0);
    for page in sectors.start / 4..=(sectors.end - 1) / 4 {
        let touched = (sectors.end.min(page * 4 + 4)) - sectors.start.max(page * 4);
        let load = if held.contains(&page) { 0 } else { parameters.load_ns };
        held.retain(|other| *other != page);
        held.insert(0, page);
        held.truncate(2);
        let fetch = parameters.transfer_ns * touched / 4;
        if parameters.overlap {
            begun = fetched.max(begun + load) + parameters.register_ns;
            fetched = begun + fetch;
        } else {
            fetched += load + fetch + touched * parameters.register_ns;
        }
    }
    parameters.command_ns + fetched
}

#[test]
fn any_reads_take_what_they_take_page_by_page() {
    for (seed, overlap) in [(1, false), (2, true)] {
        let mut places = Rng::new(seed);
        let parameters = OneNandParameters {
            command_ns: 9_000,
            register_ns: 1_000,
            ..bare([40, 20][usize::from(overlap)], overlap)
        };
        let (mut device, mut held) = (OneNand::new(parameters, 1), Vec::new());
        for _ in 0..5_000 {
            let (sector, sectors) = (places.below(60), 1 + places.below(30));
            let expected = page_by_page(parameters, &mut held, sector..sector + sectors);
            assert_eq!(took(&mut device, DeviceAccess::read(sector, sectors)), expected);
        }
    }
}

#[test]
fn a_processor_that_polls_is_busy_all_the_time_and_else_while_it_moves_data() {
    let cpu = |polls, overlap| {
        let parameters = OneNandParameters { command_ns: 50 * US, polls, ..bare(40, overlap) };
        let mut device = OneNand::new(parameters, 1);
        let completion = device.service(Instant(5), &DeviceAccess::read(0, 16));
        assert!(completion.cpu <= completion.done.since(completion.start));
        (completion.cpu.as_nanos() / US, completion.done.since(completion.start).as_nanos() / US)
    };
    // o + n * x, and n * tR if it polls.
    assert_eq!(cpu(false, false), (50 + 4 * 40, 50 + 4 * 67));
    assert_eq!(cpu(true, false), (50 + 4 * 40 + 4 * 27, 50 + 4 * 67));
    assert_eq!(cpu(false, true), (50 + 4 * 40, 50 + 27 + 4 * 40));
    assert_eq!(cpu(true, true), (50 + 27 + 4 * 40, 50 + 27 + 4 * 40));
}

#[test]
fn a_write_moves_its_bytes_and_programs_its_pages() {
    let mut device = OneNand::new(bare(40, false), 1);
    assert_eq!(took(&mut device, DeviceAccess::write(0, 8)), 2 * (40 + 220) * US);
    // A sector is a quarter to move, and a page to program.
    assert_eq!(took(&mut device, DeviceAccess::durable_write(9, 1)), (10 + 220) * US);
    // 2048 bytes in 220 us.
    let program = OneNandParameters { transfer_ns: 0, ..bare(0, false) };
    let time = took(&mut OneNand::new(program, 1), DeviceAccess::write(0, 4_000));
    assert_eq!(4_000 * 512 * 1_000 / time, 9);
}

#[test]
fn a_buffer_holds_a_page_that_was_written_whole_and_none_that_was_written_in_part() {
    let read_after = |sector, sectors, page: u64| {
        let mut device = OneNand::new(bare(40, false), 1);
        took(&mut device, DeviceAccess::read(0, 8));
        took(&mut device, DeviceAccess::write(sector, sectors));
        took(&mut device, DeviceAccess::read(page * 4, 4)) / US
    };
    assert_eq!([0, 1].map(|page| read_after(0, 4, page)), [40, 40]);
    assert_eq!([0, 1].map(|page| read_after(1, 2, page)), [67, 40]);
    assert_eq!([1, 8, 9].map(|page| read_after(28, 12, page)), [67, 40, 40]);
    assert_eq!([0, 1, 2, 3].map(|page| read_after(0, 14, page)), [67, 67, 40, 67]);
}

#[test]
fn requests_follow_one_another_and_a_flush_waits_for_them() {
    let mut device = OneNand::new(bare(40, false), 1);
    let first = device.service(Instant(10), &DeviceAccess::write(0, 4)).done;
    let second = device.service(Instant(20), &DeviceAccess::read(40, 4));
    assert_eq!(second.start, first);
    let flushed = device.service(Instant(30), &DeviceAccess::flush());
    assert_eq!((flushed.done, flushed.cpu), (second.done, Duration::ZERO));
}

#[test]
fn the_processor_moves_the_data() {
    assert!(OneNand::new(bare(40, false), 1).programmed());
}

#[test]
fn jitter_is_on_loads_keeps_their_mean_and_is_named_by_the_seed() {
    let log = |seed| {
        let parameters = OneNandParameters { jitter_sigma_ppm: 200_000, ..bare(40, false) };
        let mut device = OneNand::new(parameters, seed);
        let read = |index: u64| took(&mut device, DeviceAccess::read(index * 4, 4));
        (0..100_000).map(read).collect::<Vec<_>>()
    };
    let one = log(1);
    assert_eq!(one, log(1));
    assert_ne!(one, log(2));
    assert!(one.iter().all(|time| *time > 40 * US));
    let mean = one.iter().sum::<u64>() / 100_000;
    assert!(mean.abs_diff(67 * US) < 100, "{mean}");
}

#[test]
fn absurd_parameters_and_places_do_not_panic() {
    for nanos in [0, u64::MAX] {
        for overlap in [false, true] {
            let parameters = OneNandParameters {
                load_ns: nanos,
                transfer_ns: nanos,
                command_ns: nanos,
                register_ns: nanos,
                polls: false,
                overlap,
                program_ns: nanos,
                jitter_sigma_ppm: 0,
            };
            let mut device = OneNand::new(parameters, 1);
            for (sector, sectors) in [(u64::MAX, 8), (0, u64::MAX), (u64::MAX, u64::MAX), (0, 0)] {
                for command in [Command::Read, Command::Write, Command::DurableWrite] {
                    let access = DeviceAccess { sector, sectors, command };
                    let completion = device.service(Instant::ZERO, &access);
                    assert!(completion.done >= completion.start);
                    assert!(completion.cpu <= completion.done.since(completion.start));
                }
            }
        }
    }
}
