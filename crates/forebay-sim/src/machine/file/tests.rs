//! Errors of machine files, and their messages.

use super::super::Machine;

const GOOD: &str = include_str!("../../../machines/desktop-2004.toml");

/// The error of the desktop's file after `from` became `to`, without the position if that is the
/// line of the change.
fn complaint(from: &str, to: &str) -> String {
    let pieces: Vec<&str> = GOOD.split(from).collect();
    assert_eq!(pieces.len(), 2, "{from}");
    let said = Machine::parse(&pieces.join(to), "mine.toml").unwrap_err().to_string();
    let place = format!("mine.toml:{}: ", 1 + pieces[0].matches('\n').count());
    said.strip_prefix(&place).unwrap_or(&said).to_owned()
}

#[test]
fn a_file_is_called_after_its_name_without_folder_and_ending() {
    let name = |file| Machine::parse(GOOD, file).unwrap().name().to_owned();
    assert_eq!(name("mine.toml"), "mine");
    assert_eq!(name("some/where/mine.toml"), "mine");
    assert_eq!(name("mine"), "mine");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let said = Machine::parse("summary = \"a\"\n[cpu\n", "mine.toml").unwrap_err().to_string();
    assert!(said.starts_with("mine.toml:2: not a TOML file: "), "{said}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    assert_eq!(
        complaint("rate_outer =", "rate_uoter ="),
        "unknown key `device.rate_uoter`; did you mean `device.rate_outer`?"
    );
    assert_eq!(complaint("capacity =", "units = 3\ncapacity ="), "unknown key `device.units`");
    assert_eq!(complaint("summary =", "sumary ="), "unknown key `sumary`; did you mean `summary`?");
    assert_eq!(complaint("summary =", "colour = 1\nsummary ="), "unknown key `colour`");
    assert_eq!(
        complaint("value = 420,", "valeu = 420,"),
        "unknown key `memory.page_cache.valeu`; did you mean `memory.page_cache.value`?"
    );
}

#[test]
fn a_missing_key_is_refused_at_its_table() {
    assert_eq!(
        complaint("page_cache = {", "# page_cache = {"),
        "mine.toml:3: missing `memory.page_cache`, expected \
         { value = .., unit = \"..\", source = \"..\" }"
    );
    assert_eq!(
        complaint("value = 420, ", ""),
        "missing `memory.page_cache.value`, expected a number from 1048576 bytes to \
         1000000000000000 bytes"
    );
    assert_eq!(
        complaint("type = \"hdd\"", ""),
        "mine.toml:38: missing `device.type`, expected one of hdd, fast, ssd, raid0, onenand"
    );
    assert!(complaint("unit = \"GB\", ", "").contains("missing `device.capacity.unit`"));
    let bare = complaint(", source = \"D: 2.6 caches in single pages\"", "");
    assert!(bare.contains("missing `kernel.large_folios.source`"), "{bare}");
}

#[test]
fn an_impossible_number_is_refused_with_what_was_expected() {
    assert_eq!(
        complaint("value = 0.35", "value = -0.35"),
        "`device.command.value` is -0.35, expected a number from 0 ns to \
         1000000000 ns"
    );
    assert_eq!(
        complaint("value = 80, unit = \"MB/s\"", "value = 0, unit = \"MB/s\""),
        "`device.interface_rate.value` is 0, expected a number from 1000 bytes/s \
         to 1000000000000000 bytes/s"
    );
    assert_eq!(
        complaint("value = 4, unit", "value = 4.5, unit"),
        "`kernel.plug_requests.value` is 4.5, expected a whole number from 0 to 1024"
    );
    assert_eq!(
        complaint("value = 0, unit", "value = 2, unit"),
        "`kernel.large_folios.value` is 2, expected 0 or 1"
    );
    for nonsense in ["nan", "inf", "-1e300", "\"8.5\"", "[8.5]", "true", "{}", "1e-9"] {
        let said = complaint("value = 8.5", &format!("value = {nonsense}"));
        assert!(said.starts_with("`device.seek_third.value` is "), "{said}");
    }
}

#[test]
fn a_range_that_does_not_hold_the_value_is_refused() {
    assert_eq!(
        complaint("low = 40, high = 60", "low = 55, high = 60"),
        "`device.rate_outer.low` is 55, expected low <= value <= high"
    );
    assert_eq!(
        complaint("low = 40, high = 60", "high = 45"),
        "`device.rate_outer.high` is 45, expected low <= value <= high"
    );
}

#[test]
fn one_end_of_a_range_is_enough() {
    let text = GOOD.replace("low = 40, high = 60", "high = 60");
    let machine = Machine::parse(&text, "mine.toml").unwrap();
    let rate = machine.parameters().find(|one| one.key == "device.rate_outer").unwrap();
    assert_eq!((rate.low, rate.value, rate.high), (50_000_000, 50_000_000, 60_000_000));
}

#[test]
fn an_unknown_unit_is_refused_with_the_nearest_one() {
    assert_eq!(
        complaint("high = 60, unit = \"MB/s\"", "high = 60, unit = \"MBs\""),
        "`device.rate_outer.unit` is \"MBs\", expected one of the units bytes/s, \
         MB/s, GB/s, MiB/s, GiB/s; did you mean `MB/s`?"
    );
}

#[test]
fn a_source_needs_its_class_and_an_origin() {
    for bare in ["", "D:", "D:  ", "X: a book", "a book"] {
        let said = complaint("D: 2.6 caches in single pages", bare);
        let wanted = format!(
            "`kernel.large_folios.source` is \"{bare}\", expected a class letter D, \
             P, M, C or A, a colon and where the number is from"
        );
        assert_eq!(said, wanted);
    }
}

#[test]
fn a_text_out_of_its_choice_is_refused() {
    assert_eq!(
        complaint("\"scattered\"", "\"scatered\""),
        "`layout.placement` is \"scatered\", expected one of contiguous, scattered; \
         did you mean `scattered`?"
    );
    assert_eq!(
        complaint("\"linux-2.6.7\"", "\" \""),
        "`kernel.readahead` is \" \", expected a text that is not empty"
    );
}

#[test]
fn a_draw_cannot_put_a_long_seek_below_a_short_one() {
    assert_eq!(
        complaint("seek_third = { value = 8.5,", "seek_third = { value = 8.5, low = 0.9,"),
        "`device.seek_third` is { value = 8.5, low = 0.9, unit = \"ms\", source = \
         \"D: average , expected at least 1000000 ns, the longest device.seek_min"
    );
}

#[test]
fn every_prefix_of_a_file_gives_an_error_and_no_panic() {
    for end in 0..GOOD.trim_end().len() {
        if GOOD.is_char_boundary(end) {
            assert!(Machine::parse(&GOOD[..end], "mine.toml").is_err(), "{end}");
        }
    }
}

#[test]
fn numbers_may_be_tables_of_their_own_and_nothing_else() {
    assert!(
        complaint(
            concat!(
                "{ value = 420, low = 380, high = 460, unit = \"MiB\", source = \"A: 512 MB of ",
                "the test machine (P) less kernel, programs and the free reserve\" }",
            ),
            "512"
        )
        .starts_with("`memory.page_cache` is 512, expected { value")
    );
    assert!(Machine::parse("cpu = 1", "mine.toml").is_err());
    assert!(
        Machine::parse("device = 1", "mine.toml")
            .unwrap_err()
            .to_string()
            .contains("`device` is 1, expected a table")
    );
}

/// The error of a machine's file after `from` became `to`, with the position.
fn said_of(good: &str, from: &str, to: &str) -> String {
    assert_eq!(good.matches(from).count(), 1, "{from}");
    Machine::parse(&good.replace(from, to), "mine.toml").unwrap_err().to_string()
}

#[test]
fn an_impossible_array_is_refused_with_its_key_and_line() {
    let good = include_str!("../../../machines/raid-2001.toml");
    let line = |key: &str| 1 + good.lines().position(|line| line.starts_with(key)).unwrap();
    assert_eq!(
        said_of(good, "members = { value = 4,", "members = { value = 0,"),
        format!(
            "mine.toml:{}: `device.members.value` is 0, expected a whole number from 1 to 64",
            line("members")
        )
    );
    let wanted = "expected a multiple of 4096 bytes from 4096 bytes to 1073741824 bytes";
    assert_eq!(
        said_of(good, "{ value = 64, low = 32, high = 64, unit", "{ value = 63, unit"),
        format!("mine.toml:{}: `device.stripe_unit.value` is 63, {wanted}", line("stripe_unit"))
    );
    let rows = good.replace("members = { value = 4,", "members = { value = 32,");
    let small = said_of(&rows, "value = 17.2, unit = \"GB\"", "value = 1, unit = \"MiB\"");
    assert!(small.starts_with(&format!("mine.toml:{}: `device.capacity` is ", line("capacity"))));
    let end = "expected at least 2097152 bytes, device.members times device.stripe_unit";
    assert!(small.ends_with(end), "{small}");
    assert_eq!(
        said_of(good, "bus_rate =", "units = 3\nbus_rate ="),
        format!("mine.toml:{}: unknown key `device.units`", line("bus_rate"))
    );
}

#[test]
fn a_drive_with_more_data_than_flash_is_refused() {
    let good = include_str!("../../../machines/ssd-2014.toml");
    let said = said_of(good, "flash = { value = 128,", "flash = { value = 100,");
    assert!(said.contains("`device.flash` is { value = 100"), "{said}");
    assert!(said.ends_with("expected at least 120000000000 bytes, the largest device.capacity"));
}

#[test]
fn a_number_that_may_be_left_out_is_read_like_the_others_if_it_stands() {
    let written = "queue_depth = { value = 2, unit = \"count\", source = \"D: of a test\" }\n";
    let with = |line: &str| GOOD.replace("large_folios =", &format!("{line}large_folios ="));
    let machine = Machine::parse(&with(written), "mine.toml").unwrap();
    assert_eq!(machine.kernel().queue_depth, 2);
    assert_eq!(
        complaint("large_folios =", "queue_depth = 2\nlarge_folios ="),
        "`kernel.queue_depth` is 2, expected { value = .., unit = \"..\", source = \"..\" }"
    );
    assert_eq!(
        complaint("large_folios =", "scheduler = \"o2\"\nlarge_folios ="),
        "`kernel.scheduler` is \"o2\", expected one of round-robin, o1, fair; did you mean `o1`?"
    );
    let machine = Machine::parse(&with("elevator = \"noop\"\n"), "mine.toml").unwrap();
    assert_eq!(machine.kernel().elevator, "noop");
}

#[test]
fn a_text_that_is_no_policy_of_its_slot_is_refused() {
    let said = |line: &str| complaint("large_folios =", &format!("{line}\nlarge_folios ="));
    assert_eq!(
        said("elevator = \"deadlien\""),
        "`kernel.elevator` is \"deadlien\", expected an elevator, one of none, mq-deadline, noop, \
         deadline, anticipatory, cfq; did you mean `deadline`?"
    );
    assert_eq!(
        said("elevator = \"cfq:quantum=0\""),
        "`kernel.elevator` is \"cfq:quantum=0\", expected an elevator; 'quantum' takes a number \
         from 1 to 1024, not '0'"
    );
    assert_eq!(
        said("dispatch = \"zebra:x=1\""),
        "`kernel.dispatch` is \"zebra:x=1\", expected a rule of dispatch, one of deferred, inline, \
         adaptive"
    );
}
