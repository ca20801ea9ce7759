//! What tells a page as it was written from anything else, also from a page that was changed
//! since.
//!
//! ```text
//!   <!doctype html> ... </footer>
//!   <!-- forebay: nothing above was changed if this is its FNV-1a: 9f86d081884c7d65 -->
//!   </body>
//!   </html>
//! ```
//!
//! Only begin and end would not suffice: additions of a reader lie between them.

/// Ends a page.
pub(super) fn end(html: &mut String) {
    *html += &ending(html);
}

/// Whether these bytes are an unchanged page.
pub(super) fn is_as_written(bytes: &[u8]) -> bool {
    let length = ending("").len();
    let Some((above, _)) = bytes.len().checked_sub(length).map(|at| bytes.split_at(at)) else {
        return false;
    };
    let above = str::from_utf8(above).unwrap_or_default();
    above.starts_with(DOCTYPE) && bytes.ends_with(ending(above).as_bytes())
}

fn ending(above: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in above.bytes() {
        // FNV-1a, 64 bits (Fowler, Noll, Vo).
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{MARK} {hash:016x} -->\n</body>\n</html>\n")
}

/// How a page begins.
pub(super) const DOCTYPE: &str = "<!doctype html>";

const MARK: &str = "<!-- forebay: nothing above was changed if this is its FNV-1a:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_until_a_byte_of_it_is_changed() {
        let mut page = format!("{DOCTYPE}\n<p>1</p>\n");
        end(&mut page);
        assert!(is_as_written(page.as_bytes()));
        for place in 0..page.len() {
            let mut bytes = page.clone().into_bytes();
            bytes[place] ^= 1;
            assert!(!is_as_written(&bytes), "{place}");
            assert!(!is_as_written(&page.as_bytes()[..place]), "{place}");
            let longer = format!("{}x{}", &page[..place], &page[place..]);
            assert!(!is_as_written(longer.as_bytes()), "{place}");
        }
        let mut other = "<svg>".to_owned();
        end(&mut other);
        assert!(!is_as_written(other.as_bytes()));
    }
}
