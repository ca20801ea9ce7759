//! The options and units of job files as lists, for help texts and errors.

use super::options::{FILES, IGNORED, LIMITED, REFUSED, REQUESTS, Row, Rule, TIMING, WRITES};

/// An option of fio, and how it is treated.
#[derive(Clone, Copy, Debug)]
pub struct KnownOption {
    /// Its group; empty if it is refused or ignored.
    pub group: &'static str,
    /// Its name, and others that fio has for it.
    pub names: &'static [&'static str],
    /// How it is treated.
    pub treatment: Treatment,
}

/// Treatments of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has the effect that it has in fio.
    Understood,
    /// It changes neither the requests nor their environment; the text says why.
    Ignored(&'static str),
    /// Only these values are taken, since they change nothing; the text says why.
    Only(&'static [&'static str], &'static str),
    /// It is refused; the text says why.
    Refused(&'static str),
}

/// Every option, in the order of the tables that the parser reads by.
pub fn known_options() -> impl Iterator<Item = KnownOption> {
    let groups: [(&str, &[Row]); 7] = [
        ("requests", REQUESTS),
        ("files", FILES),
        ("writes", WRITES),
        ("time and order", TIMING),
        ("", LIMITED),
        ("", IGNORED),
        ("", REFUSED),
    ];
    groups.into_iter().flat_map(|(group, rows)| {
        rows.iter().map(move |(names, rule)| {
            let treatment = match *rule {
                Rule::Set(_) => Treatment::Understood,
                Rule::Ignored(why) => Treatment::Ignored(why),
                Rule::Only(values, why) => Treatment::Only(values, why),
                Rule::Refused(why) => Treatment::Refused(why),
            };
            KnownOption { group, names, treatment }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_stands_in_the_list_once() {
        let mut names: Vec<&str> = known_options().flat_map(|it| it.names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"rw") && names.contains(&"rate_min"));
    }
}
