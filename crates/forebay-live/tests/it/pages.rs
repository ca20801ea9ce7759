//! The page of the knobs says what the code does.

use forebay_live::knob::Knob;
use forebay_live::number::DevNumber;
use forebay_live::policy_file::{KEYS, Takes};

const PAGE: &str = include_str!("../../../../docs/tuning.md");

#[test]
fn the_page_of_the_knobs_names_each_with_its_range() {
    let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with('|')).collect();
    let row = |name: &str| {
        let name = format!("`{name}`");
        let names = |row: &&&str| row.split('|').nth(1).is_some_and(|cell| cell.contains(&name));
        let found = rows.iter().find(names);
        *found.unwrap_or_else(|| panic!("no row has {name}"))
    };
    let device = DevNumber { major: 7, minor: 0 };
    for knob in Knob::of_device(device).into_iter().chain(Knob::of_machine()) {
        let rule = knob.rule();
        for name in rule.name.split(" or ") {
            let said = row(name);
            let restore = rule.restore.split(&[',', ';']).next().unwrap();
            assert!(said.contains(restore), "{name} goes back: {restore}: {said}");
            if *rule.numbers.end() > 0 {
                let range = format!("{} to {}", rule.numbers.start(), rule.numbers.end());
                assert!(said.contains(&range), "{name}: {range}: {said}");
            }
        }
    }
    for key in KEYS {
        let said = row(&format!("{}.{}", key.section, key.name));
        if let Takes::Number(low, high, _) = key.takes {
            let range = format!("{low} to {high}");
            assert!(said.contains(&range), "{}: {range}: {said}", key.name);
        }
    }
}
