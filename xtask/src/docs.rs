//! The book: README, architecture and `docs/`, as pages that find each other.
//!
//! ```text
//!   docs/SUMMARY.md ──> the pages ──> book/src, every file where it lies in the project
//!                          |              |
//!                          +─> what they link to that is no page
//!                                         |
//!                                      mdbook ──> book/html ──> every link leads somewhere
//! ```
//!
//! mdBook takes pages from one folder and leaves links as they are. So that links of the README,
//! which is above `docs`, lead to pages, all files are laid out as they lie in the project.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::markdown::{links, resolve};
use crate::process::{root, say, target};
use crate::tool::MDBOOK;

/// Builds the book; the exit code is 1 if a link of it leads nowhere.
pub(crate) fn run() -> Result<u8> {
    let mdbook = MDBOOK.path()?;
    let folder = target().join("book");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("no {}", folder.display()))?;
    }
    let pages = lay_out(&folder.join("src"))?;
    let settings = root().join("docs/book.toml");
    fs::copy(&settings, folder.join("book.toml")).context("no docs/book.toml")?;
    let html = folder.join("html");
    let mut build = Command::new(mdbook);
    let output = build.arg("build").arg(&folder).arg("--dest-dir").arg(&html).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_trouble = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    let troubles: Vec<&str> = said.lines().filter(is_trouble).collect();
    ensure!(output.status.success() && troubles.is_empty(), "mdbook:\n{}", said.trim());
    let dead = dead_links(&read_pages(&html)?, &html);
    for link in &dead {
        say(link)?;
    }
    let index = html.join("index.html");
    ensure!(index.is_file(), "no {}", index.display());
    say(&format!("docs: {pages} pages, {} dead links, {}", dead.len(), index.display()))?;
    Ok(u8::from(!dead.is_empty()))
}

/// Copies the pages and the files that they link to; returns the number of pages.
fn lay_out(to: &Path) -> Result<usize> {
    let summary = read(SUMMARY)?;
    let mut pages = Vec::new();
    let mut list = summary.clone();
    for link in links(&summary) {
        let page = resolve(SUMMARY, link.target);
        let page = page.with_context(|| format!("{SUMMARY}:{}: outside", link.line))?;
        list = list.replacen(&format!("]({})", link.target), &format!("]({page})"), 1);
        pages.push(page);
    }
    put(to, "SUMMARY.md", list.as_bytes())?;
    let mut others = BTreeSet::new();
    for page in &pages {
        let mut text = read(page)?;
        for link in links(&text.clone()).into_iter().filter(|link| !link.is_foreign()) {
            let Some(target) = resolve(page, link.parts().0) else { continue };
            if let Some(first) = first_page(&target, &pages) {
                let way = format!("]({}{first})", "../".repeat(page.matches('/').count()));
                text = text.replace(&format!("]({})", link.target), &way);
            } else if root().join(&target).is_file() {
                others.insert(target);
            }
        }
        put(to, page, text.as_bytes())?;
    }
    for other in others.iter().filter(|other| !pages.contains(*other)) {
        let bytes = fs::read(root().join(other)).with_context(|| format!("no {other}"))?;
        put(to, other, &bytes)?;
    }
    Ok(pages.len())
}

/// Where a link to a folder, or to the list of pages, leads in the book.
fn first_page<'a>(target: &str, pages: &'a [String]) -> Option<&'a String> {
    if target == SUMMARY {
        return pages.first();
    }
    let folder = format!("{target}/");
    pages.iter().find(|page| page.starts_with(&folder))
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

fn put(to: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let place = to.join(path);
    let folder = place.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
    fs::write(&place, bytes).with_context(|| format!("cannot write {}", place.display()))
}

/// Every page of the finished book.
fn read_pages(html: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![html.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(&path)?;
                pages.insert(path, text);
            }
        }
    }
    if pages.is_empty() {
        bail!("mdbook wrote no page");
    }
    Ok(pages)
}

/// What links of the finished book lead nowhere.
fn dead_links(pages: &BTreeMap<PathBuf, String>, html: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    for (path, text) in pages {
        let name = path.strip_prefix(html).unwrap_or(path).display().to_string();
        // Its links are from the root of wherever the book is put, and all pages in one have
        // their links from elsewhere.
        if ["404.html", "print.html"].contains(&name.as_str()) {
            continue;
        }
        for link in attributes(text) {
            if is_elsewhere(link) {
                continue;
            }
            let (file, id) = link.split_once('#').map_or((link, None), |(f, id)| (f, Some(id)));
            let target = match file {
                "" => Some(name.clone()),
                file => resolve(&name, file),
            };
            let place = target.map(|target| html.join(target));
            let is_alive = place.is_some_and(|place| match (id, pages.get(&place)) {
                (Some(id), Some(page)) if !id.is_empty() => page.contains(&format!("id=\"{id}\"")),
                (_, _) => place.is_file(),
            });
            if !is_alive {
                dead.push(format!("{name}: {link} leads nowhere"));
            }
        }
    }
    dead
}

/// What a page points at.
fn attributes(text: &str) -> impl Iterator<Item = &str> {
    ["href=\"", "src=\""].into_iter().flat_map(move |open| {
        text.match_indices(open).filter_map(move |(at, _)| {
            let rest = &text[at + open.len()..];
            rest.split_once('"').map(|(target, _)| target)
        })
    })
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:")
}

const SUMMARY: &str = "docs/SUMMARY.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_leads_to_its_first_page() {
        let pages = ["README.md", "docs/a.md", "docs/papers/p.md"].map(str::to_owned);
        assert_eq!(first_page("docs/papers", &pages).unwrap(), "docs/papers/p.md");
        assert_eq!(first_page("docs", &pages).unwrap(), "docs/a.md");
        assert_eq!(first_page(SUMMARY, &pages).unwrap(), "README.md");
        assert_eq!(first_page("docs/a.md", &pages), None);
        assert_eq!(first_page("examples", &pages), None);
    }

    #[test]
    fn a_link_to_no_page_and_one_to_no_heading_are_dead() {
        let html = Path::new("/nonexistent");
        let page = |name: &str, text: &str| (html.join(name), text.to_owned());
        let pages = BTreeMap::from([
            page("a.html", "<a href=\"b.html\"> <a href=\"docs/c.html#d\"> <a href=\"https://e\">"),
            page("docs/c.html", "<h1 id=\"d\"> <a href=\"../a.html#g\"> <a href=\"#d\">"),
        ]);
        let dead = dead_links(&pages, html);
        assert_eq!(
            dead,
            ["a.html: b.html leads nowhere", "docs/c.html: ../a.html#g leads nowhere"]
        );
    }
}
