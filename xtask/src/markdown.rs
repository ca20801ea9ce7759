//! As much of Markdown as documents need that point at each other: links, headings, and where a
//! link leads.

/// A link of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Counted from one.
    pub(crate) line: usize,
    /// As it is written: `tuning.md#knobs`.
    pub(crate) target: &'a str,
}

impl<'a> Link<'a> {
    /// The file's part and, if there is one, the heading's.
    pub(crate) fn parts(&self) -> (&'a str, Option<&'a str>) {
        match self.target.split_once('#') {
            Some((file, heading)) => (file, Some(heading)),
            None => (self.target, None),
        }
    }

    /// Whether it leads out of the project.
    pub(crate) fn is_foreign(&self) -> bool {
        self.target.contains("://") || self.target.starts_with("mailto:")
    }
}

/// The links and images of a text, outside of code.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (line, content) in lines(text) {
        for (open, close) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
            for (at, _) in content.match_indices(open) {
                let rest = &content[at + open.len()..];
                let is_code = content[..at].matches('`').count() % 2 == 1;
                if let (Some(end), false) = (rest.find(close), is_code) {
                    // Behind a blank stands a title, or a width.
                    let target = rest[..end].split(' ').next().unwrap_or_default();
                    links.push(Link { line, target });
                }
            }
        }
    }
    links
}

/// What headings are reached by: lower case, dashes for blanks, no punctuation; from the second
/// on, one that is there already has a number.
pub(crate) fn headings(text: &str) -> Vec<String> {
    let mut slugs: Vec<String> = Vec::new();
    for (_, line) in lines(text) {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        let Some(title) = line[hashes..].strip_prefix(' ').filter(|_| hashes > 0) else { continue };
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let same = slugs.iter().filter(|known| **known == slug).count();
        slugs.push(if same == 0 { slug } else { format!("{slug}-{same}") });
    }
    slugs
}

/// Where a link in `document` leads: both are paths from the root. None if it leads above it.
pub(crate) fn resolve(document: &str, target: &str) -> Option<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside of blocks of code, counted from one.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        let was_code = fence.is_some();
        if mark.is_some() && (fence.is_none() || fence == mark) {
            fence = if was_code { None } else { mark };
        }
        (!was_code && fence.is_none()).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) `[c](d)` ![e](f.png \"g\")\n```\n[h](i)\n```\n<img src=\"j.png\">\n";
        let found: Vec<(usize, &str)> =
            links(text).into_iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(1, "b.md"), (1, "f.png"), (5, "j.png")]);
    }

    #[test]
    fn headings_become_what_they_are_reached_by() {
        let text =
            "# Tuning the kernel\n## What `tune` does, and when\n#no\n```\n# x\n```\n# A\n# A\n";
        let expected = ["tuning-the-kernel", "what-tune-does-and-when", "a", "a-1"];
        assert_eq!(headings(text), expected);
    }

    #[test]
    fn a_link_leads_from_the_folder_of_its_document() {
        assert_eq!(resolve("docs/a.md", "b.md").unwrap(), "docs/b.md");
        assert_eq!(resolve("docs/papers/a.md", "../devices.md").unwrap(), "docs/devices.md");
        assert_eq!(resolve("docs/a.md", "../README.md").unwrap(), "README.md");
        assert_eq!(resolve("README.md", "./docs/a.md").unwrap(), "docs/a.md");
        assert_eq!(resolve("README.md", "../a.md"), None);
    }

    #[test]
    fn a_link_has_a_file_and_a_heading() {
        let link = |target| Link { line: 1, target };
        assert_eq!(link("a.md#b").parts(), ("a.md", Some("b")));
        assert_eq!(link("#b").parts(), ("", Some("b")));
        assert_eq!(link("a.md").parts(), ("a.md", None));
        assert!(link("https://a.b/c").is_foreign() && !link("a.md").is_foreign());
    }
}
