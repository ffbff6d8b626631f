//! Rates of rebuilds as they are asked for: of arrays of either engine, and in MiB of a drive or member.

use crate::cli::{RATE_MIB_MAX, Rate};
use anyhow::{Context, Result, bail};
use array::pacer::Rates;

/// Question to a server that sets these rates: the largest, and the one that is kept while clients are at work.
pub fn question(most: Option<Rate>, least: Option<Rate>) -> String {
    let word = |rate: Option<Rate>| rate.map_or("-".to_owned(), |rate| rate.mib_per_second.to_string());
    format!("rebuild-rate {} {}", word(most), word(least))
}

/// Rates of what is asked behind `rebuild-rate`: `MIB|- [MIB|-]`. The largest alone is that of both times, as ever.
pub fn parse(rest: &str) -> Result<Rates> {
    let bytes = |word: &str| match word {
        "-" => Ok(None),
        mib => {
            let mib: u64 = mib.parse().context("the rate in MiB per second")?;
            Ok::<_, anyhow::Error>(Some(mib.min(RATE_MIB_MAX) << 20))
        }
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (most, least) = match words[..] {
        [most] => (bytes(most)?, None),
        [most, least] => (bytes(most)?, bytes(least)?),
        _ => bail!("`rebuild-rate {rest}` is no question: ask `rebuild-rate MIB|- [MIB|-]`"),
    };
    Ok(match least {
        None => Rates::asked_for(most),
        Some(_) => Rates { min: least, max: most.filter(|most| *most > 0) },
    })
}

/// Rates in words.
pub fn in_words(rates: Rates) -> String {
    let mib = |bytes: u64| format!("{} MiB/s", bytes >> 20);
    let most = rates.max.map_or("as much as drives take".to_owned(), |most| format!("at most {}", mib(most)));
    match rates.min.filter(|least| *least > 0) {
        Some(least) => format!("{most}, and {} while clients are at work", mib(least)),
        None => format!("{most}, whatever clients do"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_asked_for_in_words() {
        let (one, two) = (Some(1 << 20), Some(2 << 20));
        assert_eq!(parse("2").unwrap(), Rates { min: None, max: two });
        assert_eq!(parse("2 1").unwrap(), Rates { min: one, max: two });
        assert_eq!(parse("- 1").unwrap(), Rates { min: one, max: None });
        assert_eq!(parse("0 1").unwrap(), Rates { min: one, max: None });
        assert_eq!(parse("- -").unwrap(), Rates::default());
        assert!(parse("").is_err() && parse("a").is_err() && parse("1 2 3").is_err());
        let rate = |mib_per_second| Some(Rate { mib_per_second });
        assert_eq!(question(rate(2), None), "rebuild-rate 2 -");
        assert_eq!(in_words(parse("2 1").unwrap()), "at most 2 MiB/s, and 1 MiB/s while clients are at work");
        assert_eq!(in_words(Rates::UNLIMITED), "as much as drives take, whatever clients do");
    }
}
