//! The grammar of job files: sections, options, comments, and the line of each.
//!
//! Source:     fio 3.33, `init.c` (job file reader) and `parse.c`, checked by running it
//! Behaviour:  A line is blank, a comment, a `[section]` or an option with or without a value.
//!             `;` and `#` end a line wherever they stand. A section whose name starts with
//!             `global` sets defaults.
//! Differs:    Variables, arithmetic and `include` are refused, because the text alone must define
//!             the job. A blank after `=` is refused: fio reads `bs= 4k` as 4 bytes.
//! Not for:    command lines of fio, whose options are spelt `--name=value`

use super::error::{JobError, JobErrorKind};

/// One section, global or job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// The text between the brackets.
    pub(super) name: &'a str,
    /// The line of the header.
    pub(super) line: u32,
    /// The options in their order.
    pub(super) entries: Vec<Entry<'a>>,
}

impl Section<'_> {
    /// Whether the section sets defaults instead of naming a job.
    pub(super) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// One option as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The name, without blanks.
    pub(super) option: &'a str,
    /// What follows the first `=`.
    pub(super) value: Option<&'a str>,
    /// The line it stands on.
    pub(super) line: u32,
}

/// Splits `text` into sections.
pub(super) fn sections<'a>(text: &'a str, file: &str) -> Result<Vec<Section<'a>>, JobError> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for (number, raw) in (1u32..).zip(text.split('\n')) {
        let fail = |option: &str, kind| JobError {
            file: file.to_owned(),
            line: number,
            option: option.to_owned(),
            kind: Box::new(kind),
        };
        if raw.len() > LINE_BYTES_MAX {
            let kind = JobErrorKind::LongLine { found: raw.len(), most: LINE_BYTES_MAX };
            return Err(fail("", kind));
        }
        let line = raw.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with('[') {
            let name = section_name(line)
                .ok_or_else(|| fail("", JobErrorKind::BadSection { text: line.to_owned() }))?;
            sections.push(Section { name, line: number, entries: Vec::new() });
            continue;
        }
        let entry = entry(line, number).map_err(|(option, kind)| fail(option, kind))?;
        let Some(section) = sections.last_mut() else {
            return Err(fail(
                entry.option,
                JobErrorKind::OutsideSection { option: line.to_owned() },
            ));
        };
        section.entries.push(entry);
    }
    Ok(sections)
}

fn section_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    (!name.is_empty()).then_some(name)
}

fn entry(line: &str, number: u32) -> Result<Entry<'_>, (&str, JobErrorKind)> {
    let (option, value) = match line.split_once('=') {
        Some((option, value)) => (option.trim_end(), Some(value)),
        None => (line, None),
    };
    let refuse = |why| {
        let value = value.unwrap_or_default().to_owned();
        (option, JobErrorKind::NotSupported { option: option.to_owned(), value, why })
    };
    if value.is_none() && option.starts_with("include") {
        return Err(refuse("put the text of the included file in its place"));
    }
    if line.contains("${") {
        return Err(refuse("environment variables are not replaced"));
    }
    if KEYWORDS.iter().any(|word| line.contains(word)) {
        return Err(refuse("$pagesize, $mb_memory and $ncpus depend on the machine"));
    }
    if value.is_some_and(|value| value.starts_with(char::is_whitespace)) {
        return Err((
            option,
            JobErrorKind::BadValue {
                option: option.to_owned(),
                value: value.unwrap_or_default().to_owned(),
                expected: "no blank after '=', since fio misreads numbers behind one",
            },
        ));
    }
    Ok(Entry { option, value, line: number })
}

/// Words that fio replaces by facts about the machine it runs on.
const KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

/// fio reads lines in pieces of 8 KiB; a longer one would fall apart unseen.
const LINE_BYTES_MAX: usize = 8190;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_a_line_and_blank_lines_do_not_count() {
        let text = "; head\n[global]\n\n  bs=4k # unit\r\n[a b] ; x\nrw=read\nnorandommap\n";
        let found = sections(text, "f").unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[0].is_global());
        assert_eq!(found[0].entries, [Entry { option: "bs", value: Some("4k"), line: 4 }]);
        assert_eq!((found[1].name, found[1].line), ("a b", 5));
        assert_eq!(found[1].entries[1], Entry { option: "norandommap", value: None, line: 7 });
    }

    #[test]
    fn a_line_that_is_too_long_is_refused() {
        let text = format!("[a]\ndescription={}\n", "x".repeat(LINE_BYTES_MAX));
        let error = sections(&text, "f").unwrap_err();
        assert_eq!(error.to_string(), "f:2: the line has 8202 bytes, at most 8190 are read");
    }
}
