//! Addresses of objects: `s3://bucket/key`, `https://host/path` and others.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::path::Path;
use url::Url;

/// Where an object is, taken apart.
#[derive(Clone)]
pub(super) struct ObjectAddress {
    pub(super) service: Service,
    /// Scheme and bucket, as the builders of `object_store` take them.
    pub(super) bucket: String,
    pub(super) key: Path,
    /// The address for messages: without user, password and query.
    shown: String,
    /// The page of an HTTP server.
    pub(super) page: Option<Page>,
}

/// What speaks at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
    Http,
}

/// A page of an HTTP server. It is requested exactly as typed: a query may be a signature.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) url: String,
    /// The header that names a user, from `user:password@` in the address.
    pub(super) authorization: Option<String>,
}

impl ObjectAddress {
    /// Takes an address apart.
    ///
    /// # Errors
    /// The error in it.
    pub(super) fn parse(typed: &str) -> Result<Self, String> {
        let (scheme, rest) = typed.split_once("://").ok_or("it has no scheme such as s3://")?;
        let service = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Service::S3,
            "gs" => Service::Google,
            "az" | "azure" | "abfs" | "abfss" => Service::Azure,
            "http" | "https" => return Self::of_page(typed),
            _ => return Err(format!("{scheme}:// is not s3, gs, az, http or https")),
        };
        // A key is literal: no character of it has another meaning.
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || key.is_empty() {
            return Err("it takes a bucket and a key".to_owned());
        }
        let shown = format!("{}/{key}", without_user(scheme, bucket));
        let typed = key;
        let key = Path::parse(typed).map_err(|error| error.to_string())?;
        if key.as_ref() != typed {
            return Err("a key neither begins nor ends with a slash here".to_owned());
        }
        Ok(Self { service, bucket: format!("{scheme}://{bucket}"), key, shown, page: None })
    }

    fn of_page(typed: &str) -> Result<Self, String> {
        let mut url = Url::parse(typed).map_err(|error| error.to_string())?;
        url.set_fragment(None);
        let user = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(format!("{}:{}", plain(user), plain(password.unwrap_or("")))),
        };
        let authorization = user.map(|user| format!("Basic {}", BASE64_STANDARD.encode(user)));
        // Neither fails for a scheme with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let bucket = url[..url::Position::BeforePath].to_owned();
        let shown = url[..url::Position::AfterPath].to_owned();
        let page = Some(Page { url: url.into(), authorization });
        Ok(Self { service: Service::Http, bucket, key: Path::from("object"), shown, page })
    }
}

impl fmt::Display for ObjectAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ObjectAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Whether the text is an address of an object and not a path.
pub fn is_object(typed: &str) -> bool {
    let scheme = typed.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| {
        let schemes = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "http", "https"];
        schemes.contains(&scheme.as_str())
    })
}

/// The path of a file that is named as `file:///path`.
pub fn local_path(typed: &str) -> Option<PathBuf> {
    typed.starts_with("file://").then(|| Url::parse(typed).ok()?.to_file_path().ok()).flatten()
}

/// Whatever of a text may be shown: addresses in it lose user, password and query.
pub fn scrubbed(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['?', '#']).unwrap_or(rest.len());
            let (host, path) = rest[..end].split_once('/').unwrap_or((&rest[..end], ""));
            let slash = if rest[..end].contains('/') { "/" } else { "" };
            format!("{}{slash}{path}", without_user(scheme, host))
        }
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Scheme and host; of Azure, what stands before an `@` is a container and no secret.
fn without_user(scheme: &str, host: &str) -> String {
    let is_container = scheme.starts_with('a') && !host.contains(':');
    let host = if is_container { host } else { host.rsplit('@').next().unwrap_or(host) };
    format!("{scheme}://{host}")
}

/// Text with percent signs decoded.
fn plain(encoded: &str) -> String {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let letter = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match letter.filter(|_| *first == b'%') {
            Some(letter) => {
                bytes.push(letter);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_service_a_bucket_and_a_key() {
        let cases = [
            ("s3://b/dir/disk.img", Service::S3, "s3://b", "dir/disk.img"),
            ("s3://b/a key?#%41", Service::S3, "s3://b", "a key?#%41"),
            ("gs://b/k", Service::Google, "gs://b", "k"),
            ("az://c@account/k", Service::Azure, "az://c@account", "k"),
        ];
        for (typed, service, bucket, key) in cases {
            let address = ObjectAddress::parse(typed).unwrap();
            assert_eq!((address.service, address.bucket.as_str()), (service, bucket), "{typed}");
            assert_eq!(address.key, Path::parse(key).unwrap(), "{typed}");
            assert_eq!(address.to_string(), typed);
        }
        for typed in
            ["s3://b", "s3://b/", "s3:///k", "ftp://h/p", "disk.img", "http://", "s3://b//k"]
        {
            assert!(ObjectAddress::parse(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_file_may_be_named_as_an_address() {
        assert_eq!(local_path("file:///a/b%20c"), Some(PathBuf::from("/a/b c")));
        assert_eq!((local_path("/a"), local_path("file://elsewhere/a")), (None, None));
        assert!(is_object("s3://b/k") && is_object("HTTPS://h/") && !is_object("file:///a"));
        assert!(!is_object("a/b") && !is_object("memory:4G"));
    }

    #[test]
    fn secrets_of_an_address_are_asked_with_and_not_shown() {
        let typed = "https://me:p%40ss@host:81/a//b%2Fc?X-Amz-Signature=abc#frag";
        let address = ObjectAddress::parse(typed).unwrap();
        let page = address.page.clone().unwrap();
        assert_eq!(page.url, "https://host:81/a//b%2Fc?X-Amz-Signature=abc");
        assert_eq!(page.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(format!("{address} {address:?}").matches("https://host:81/a//b%2Fc").count(), 2);
        for secret in ["me", "p%40ss", "Signature", "abc"] {
            assert!(!format!("{address}{address:?}").contains(secret), "{secret}");
        }
        let text = "error for http://u:p@h/k?sig=1 and az://c@acc/k and s3://b then";
        assert_eq!(scrubbed(text), "error for http://h/k and az://c@acc/k and s3://b then");
    }
}
