//! `--namespace`: what a namespace has for itself, as it is typed.

use crate::exit::Exit;
use anyhow::Result as Checked;
use cache::format::NAMESPACES;
use cache::policy::Eviction;
use cache::request::Namespace;
use cache::share::{Share, Shares};
use server::Listen;
use std::str::FromStr;
use zone::device::Geometry;

const NAME_BYTES_MAX: usize = 64;

/// A namespace with what was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceOption {
    /// Database of RESP.
    pub namespace: Namespace,
    /// Name for people.
    pub name: Option<String>,
    /// Address of its own for clients of memcached.
    pub memcached: Option<Listen>,
    flash_percent: u32,
    memory_percent: u32,
    eviction: Option<Eviction>,
    ttl_max: Option<u64>,
}

impl FromStr for NamespaceOption {
    type Err = String;

    fn from_str(text: &str) -> Result<NamespaceOption, String> {
        let (number, rest) = text.split_once(':').ok_or_else(|| {
            format!("`{text}`: write N:KEY=VALUE,..., such as 1:name=web,share=30%,ttl-max=1h")
        })?;
        let number = number.parse().ok().filter(|number: &u8| usize::from(*number) < NAMESPACES);
        let number = number.ok_or_else(|| format!("`{text}`: namespaces are 0 to 15"))?;
        let mut option = NamespaceOption {
            namespace: Namespace(number),
            name: None,
            memcached: None,
            flash_percent: 0,
            memory_percent: 0,
            eviction: None,
            ttl_max: None,
        };
        for pair in rest.split(',') {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}`: write KEY=VALUE"))?;
            match key {
                "name" if is_name(value) => option.name = Some(value.to_owned()),
                "name" => {
                    return Err(format!(
                        "`{value}`: a name has 1 to {NAME_BYTES_MAX} letters, digits, - or _"
                    ));
                }
                "share" => option.flash_percent = percent(value)?,
                "memory" => option.memory_percent = percent(value)?,
                "eviction" => option.eviction = Some(value.parse()?),
                "ttl-max" => option.ttl_max = Some(millis(value)?),
                "memcached" => option.memcached = Some(value.parse().map_err(|error| format!("{error}"))?),
                _ => {
                    return Err(format!(
                        "`{key}`: a namespace has name, share, memory, eviction, ttl-max and memcached"
                    ));
                }
            }
        }
        if option.eviction.is_some() && option.flash_percent == 0 {
            return Err(format!("`{text}`: eviction is for zones of its own: add share=N%"));
        }
        Ok(option)
    }
}

fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_good)
}

fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    let number = number.filter(|percent| (1..=90).contains(percent));
    number.ok_or_else(|| format!("`{text}`: a share is 1% to 90%"))
}

/// A time in milliseconds.
pub fn millis(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}`: write a time like 500ms, 30s, 10m, 1h or 2d");
    let split = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let unit = match &text[split..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..split].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|millis| *millis > 0).ok_or_else(wrong)
}

/// Shares that these options mean, in a cache that has this policy for all others.
///
/// # Errors
/// When they do not fit together.
pub fn shares(options: &[NamespaceOption], eviction: Eviction) -> Checked<Shares> {
    let share = |option: &NamespaceOption| Share {
        namespace: option.namespace,
        flash_percent: option.flash_percent,
        memory_percent: option.memory_percent,
        eviction: option.eviction.unwrap_or(eviction),
        ttl_max: option.ttl_max,
    };
    let all: Vec<Share> = options.iter().map(share).collect();
    Shares::new(&all).map_err(|error| Exit::Usage.error(format!("--namespace: {error}")))
}

/// Judges whether drives have room for the shares of flash.
///
/// # Errors
/// When one has not.
pub fn check(shares: &Shares, geometries: &[Option<Geometry>]) -> Checked<()> {
    shares.check(geometries).map_err(|error| Exit::Usage.error(format!("--namespace: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NamespaceOption, String> {
        text.parse()
    }

    #[test]
    fn a_namespace_is_read() {
        let all = "1:name=web,share=30%,memory=20%,eviction=fifo,ttl-max=1h,memcached=tcp:127.0.0.1:11212";
        let read = parse(all).expect("it is right");
        assert_eq!((read.namespace, read.name.as_deref()), (Namespace(1), Some("web")));
        assert_eq!(read.memcached, Some("tcp:127.0.0.1:11212".parse().expect("an address")));
        let shares = shares(&[read, parse("2:ttl-max=500ms").expect("it is right")], Eviction::Lru);
        let shares = shares.expect("they fit together");
        let share = shares.of(Namespace(1)).expect("it has one");
        assert_eq!((share.flash_percent, share.memory_percent), (30, 20));
        assert_eq!((share.eviction, share.ttl_max), (Eviction::Fifo, Some(3_600_000)));
        let other = shares.of(Namespace(2)).expect("it has one");
        assert_eq!((other.flash_percent, other.eviction, other.ttl_max), (0, Eviction::Lru, Some(500)));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("1", "such as 1:name=web"),
            ("16:share=1%", "0 to 15"),
            ("1:share=30", "1% to 90%"),
            ("1:share=91%", "1% to 90%"),
            ("1:share", "KEY=VALUE"),
            ("1:quota=3", "a namespace has name, share"),
            ("1:name=a b", "letters"),
            ("1:share=3%,eviction=clock", "use s3fifo"),
            ("1:eviction=fifo", "add share=N%"),
            ("1:ttl-max=0s", "like 500ms"),
            ("1:ttl-max=1w", "like 500ms"),
            ("1:ttl-max=999999999999999999d", "like 500ms"),
            ("1:memcached=11212", "not a place to listen"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
