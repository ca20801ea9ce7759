//! The options of job files, from the table of the parser.

use forebay_sim::fio::{KnownOption, Treatment, known_options};

use super::sheet::Sheet;

pub(super) fn text(text: &mut Sheet) {
    text.lines(
        "Job files of fio, read as fio reads them: the same requests in the same order.\n\n\
         \x20 forebay simulate JOB                on a modelled machine\n\
         \x20 forebay run JOB --on PATH           on a real file or device\n\
         \x20 forebay simulate --name=a --rw=randread --bs=16k --size=64m\n\
         \x20 printf '[a]\\nrw=randread\\nbs=16k\\nsize=64m\\n' | forebay simulate -",
    );
    text.heading("UNDERSTOOD");
    for group in ["requests", "files", "writes", "time and order"] {
        let of_group = |it: &KnownOption| it.group == group;
        let names = known_options().filter(of_group).map(|it| it.names.join(" = "));
        text.paragraph(&format!("{group:<15}"), &names.collect::<Vec<_>>().join(", "));
    }
    text.heading("ACCEPTED ONLY WITH A VALUE THAT CHANGES NOTHING");
    for option in known_options() {
        if let Treatment::Only(values, why) = option.treatment {
            let label = format!("{}={}", option.names[0], values.join("|"));
            text.paragraph(&format!("{label:<31}"), why);
        }
    }
    text.heading("REFUSED, WITH FILE AND LINE");
    by_reason(text, |treatment| match treatment {
        Treatment::Refused(why) => Some(why),
        Treatment::Understood | Treatment::Ignored(_) | Treatment::Only(..) => None,
    });
    text.heading("IGNORED, WITH A NOTE");
    by_reason(text, |treatment| match treatment {
        Treatment::Ignored(why) => Some(why),
        Treatment::Understood | Treatment::Refused(_) | Treatment::Only(..) => None,
    });
    text.lines("\nTraps, columns of the tables and what is exact: docs/job-files.md");
}

/// A paragraph for each reason, with its options.
fn by_reason(text: &mut Sheet, reason: impl Fn(Treatment) -> Option<&'static str>) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for option in known_options() {
        let Some(why) = reason(option.treatment) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.extend(option.names),
            None => reasons.push((why, option.names.to_vec())),
        }
    }
    for (why, names) in reasons {
        text.paragraph("", &format!("{why}:"));
        text.paragraph("    ", &names.join(", "));
    }
}
