//! Stored directories, and the entries that are shown.

use super::*;

fn entry(name: &str, ino: u64) -> Stored<()> {
    let target = EntryTarget { ino, kind: Some(Kind::File) };
    Stored { name: name.as_bytes().to_vec(), node: NodeId(ino), target, extra: () }
}

const SORTED: Promise = Promise { sorted: true, found: true, name_max: 9, dots: None };

fn said(listing: &Listing<()>) -> Vec<String> {
    listing.defects.iter().map(ToString::to_string).collect()
}

fn shown_entries(listing: &Listing<()>) -> Vec<(String, u64)> {
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    listing.entries.iter().map(|entry| (text(&entry.name), entry.node.0)).collect()
}

fn places(listing: &Listing<()>) {
    for entry in listing.entries.iter() {
        assert_eq!(listing.find(&entry.name).unwrap().0, entry);
    }
    assert!(listing.find(b"nothing").is_none());
}

#[test]
fn sorted_names_are_shown_without_being_looked_up() {
    let stored = vec![entry("a", 1), entry("b", 2)];
    let listing = Listing::new(stored, SORTED, |_, _| panic!("it was looked up"));
    assert_eq!(shown_entries(&listing), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert!(listing.defects.is_empty());
    places(&listing);
}

#[test]
fn of_equal_names_the_one_that_is_found_is_shown() {
    let stored = vec![entry("b", 1), entry("a", 2), entry("b", 3), entry("c", 4)];
    let listing =
        Listing::new(stored, SORTED, |_, place| Lookup::At(if place == 0 { 2 } else { place }));
    let wanted = [("b".to_owned(), 3), ("a".to_owned(), 2), ("c".to_owned(), 4)];
    assert_eq!(shown_entries(&listing), wanted);
    let twice = "the name 'b' is there twice: inode 3 (file) is shown, inode 1 (file) is left out";
    let late = "the entry 'a' of inode 2 (file) is out of order: it stands behind 'b' of inode 1 \
                (file), where Linux finds it nevertheless";
    assert_eq!(said(&listing), [twice, late]);
    assert_eq!(listing.defects.iter().filter(|defect| defect.is_shown()).count(), 1);
    places(&listing);
}

#[test]
fn what_is_not_found_is_left_out() {
    let stored = vec![entry("b", 1), entry("a", 2), entry("c", 3)];
    let listing =
        Listing::new(
            stored,
            SORTED,
            |_, place| {
                if place == 0 { Lookup::At(0) } else { Lookup::Nothing }
            },
        );
    assert_eq!(shown_entries(&listing), [("b".to_owned(), 1)]);
    let behind = "the entry 'a' of inode 2 (file) is left out: it stands behind 'b' of inode 1 \
                  (file), where Linux does not find it";
    let other = "the entry 'c' of inode 3 (file) is left out: Linux does not find it, since other \
                 names or the directory's index are out of order";
    assert_eq!(said(&listing), [behind, other]);
}

#[test]
fn a_lookup_that_leads_elsewhere_is_believed() {
    let stored = vec![entry("b", 1), entry("a", 2)];
    let listing = Listing::new(stored, SORTED, |_, place| {
        if place == 0 { Lookup::Foreign(entry("b", 9)) } else { Lookup::At(0) }
    });
    assert_eq!(shown_entries(&listing), [("b".to_owned(), 9), ("a".to_owned(), 1)]);
    let text = said(&listing).join("\n");
    assert!(text.contains("'b' names inode 1 (file), but a lookup leads to inode 9"), "{text}");
    assert!(text.contains("'a' names inode 2 (file), but a lookup leads to inode 1"), "{text}");
}

#[test]
fn a_bad_name_or_type_costs_one_entry() {
    let mut stored: Vec<_> =
        ["", ".", "..", "../B", "a", "b\0c", "d", "0123456789"].map(|name| entry(name, 5)).into();
    stored[6].target.kind = None;
    let free = Promise { sorted: false, ..SORTED };
    let listing = Listing::new(stored, free, |_, place| Lookup::At(place));
    assert_eq!(shown_entries(&listing), [("a".to_owned(), 5)]);
    let text = said(&listing);
    assert_eq!(text.len(), 7);
    assert_eq!(text[3], "the entry '../B' of inode 5 (file) is left out: a slash in the name");
    assert_eq!(
        text[5],
        "the entry 'd' of inode 5 (unknown type) is left out: no such type of file"
    );
    assert!(text[6].ends_with("the name is too long"), "{text:?}");
}

#[test]
fn dots_are_stored_where_the_format_says_so_and_name_directories() {
    let dot = |name: &str, ino, kind| {
        let mut entry = entry(name, ino);
        entry.target.kind = Some(kind);
        entry
    };
    let stored = |entries: &[Stored<()>]| {
        let promise = Promise { dots: Some(7), ..SORTED };
        said(&Listing::new(entries.to_vec(), promise, |_, place| Lookup::At(place))).len()
    };
    let (own, above) = (dot(".", 7, Kind::Directory), dot("..", 3, Kind::Directory));
    assert_eq!(stored(&[own.clone(), above.clone(), entry("a", 1)]), 0);
    assert_eq!(stored(&[own.clone(), above.clone(), above.clone()]), 1);
    assert_eq!(stored(&[dot(".", 8, Kind::Directory), above]), 1);
    assert_eq!(stored(&[own, dot("..", 3, Kind::File)]), 1);
}

#[test]
fn oddities_are_bounded_and_each_is_there_once() {
    let names: Vec<String> = (0..200).map(|number| format!("x/{number}")).collect();
    let stored = names.iter().map(|name| entry(name, 1)).collect();
    let listing = Listing::new(stored, SORTED, |_, place| Lookup::At(place));
    let oddities = Oddities::default();
    oddities.add(1, &listing.defects[..2]);
    oddities.add(1, &listing.defects[..2]);
    assert_eq!(oddities.all().len(), 2);
    oddities.add(1, &listing.defects);
    assert_eq!(oddities.all().len(), ODDITIES_MAX);
}
