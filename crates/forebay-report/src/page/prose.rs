//! Words that the documentation has already: a section of one of its pages.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// How much of a section is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Up to the first heading inside it.
    Begin,
}

/// The section below a heading of the second level, without the heading; empty if there is none.
pub(super) fn section(markdown: &str, heading: &str, extent: Extent) -> String {
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut wanted = Vec::new();
    let (mut inside, mut title) = (false, None);
    for event in events {
        match (&event, &mut title) {
            (Event::Start(Tag::Heading { level: HeadingLevel::H1 | HeadingLevel::H2, .. }), _) => {
                title = Some(String::new());
                inside = false;
            }
            (Event::End(TagEnd::Heading(HeadingLevel::H1 | HeadingLevel::H2)), Some(words)) => {
                inside = words.trim() == heading;
                title = None;
            }
            (Event::Start(Tag::Heading { .. }), _) if extent == Extent::Begin => inside = false,
            (Event::Text(text) | Event::Code(text), Some(words)) => words.push_str(text),
            (_, Some(_)) => {}
            (_, None) if inside => wanted.extend(fitting(event)),
            (_, None) => {}
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, wanted.into_iter());
    text
}

/// The allowed elements of a separate page: tables in a box, no links to files that do not exist,
/// no foreign HTML.
fn fitting(event: Event<'_>) -> Option<Event<'_>> {
    Some(match event {
        Event::Start(Tag::Table(_)) => Event::Html("<div class=\"scroll\"><table>".into()),
        Event::End(TagEnd::Table) => Event::Html("</tbody></table></div>".into()),
        Event::Start(Tag::Heading { .. }) => Event::Html("<h4>".into()),
        Event::End(TagEnd::Heading(_)) => Event::Html("</h4>".into()),
        Event::Start(Tag::Link { .. } | Tag::Image { .. }) => return None,
        Event::End(TagEnd::Link | TagEnd::Image) => return None,
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_) => event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\n## The `model`\n\nOne [link](../a.md) & <b>.\n\n### Deeper\n\n\
                        | a | b |\n| --- | --- |\n| 1 | 2 |\n\n## Not this\n\nElse.\n";

    #[test]
    fn a_section_ends_where_the_next_one_begins() {
        let text = section(TEXT, "The model", Extent::Whole);
        assert!(text.contains("<p>One link &amp; &lt;b&gt;.</p>"), "{text}");
        assert!(text.contains("<h4>Deeper</h4>") && text.contains("<td>2</td>"), "{text}");
        assert!(!text.contains("Else") && !text.contains("Title"), "{text}");
        assert_eq!(text.matches("<table>").count(), text.matches("</table>").count());
        let begin = section(TEXT, "The model", Extent::Begin);
        assert!(begin.contains("One link") && !begin.contains("<td>2</td>"), "{begin}");
    }

    #[test]
    fn a_section_that_is_not_there_is_empty() {
        assert_eq!(section(TEXT, "Absent", Extent::Whole), "");
        assert_eq!(section("", "The model", Extent::Whole), "");
    }
}
