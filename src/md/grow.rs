//! `zoneweave md grow`: another consistency policy for an array that is served. What else `mdadm --grow` does is refused with the line that
//! does it.

use super::add::answer;
use super::description::Description;
use super::{BitmapWord, Grow, PolicyWord};
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::InPlace;
use array::inplace::policy::ChangeRefused;
use array::inplace::volume::InPlaceVolume;
use block::md::policy::{CannotChange, Wish, word};
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Answer of the server about the policy.
#[derive(serde::Deserialize, serde::Serialize)]
struct Said {
    policy: String,
    is_changing: bool,
}

/// Changes the policy, and waits until that is through.
pub fn run(options: &Grow) -> Result<Exit> {
    let description = Description::open(&options.dir)?;
    expect_no_reshape(options, &description)?;
    let wish = wish(options)?;
    let region = match wish {
        Wish::Bitmap(Some(bytes)) => bytes.to_string(),
        _ => "-".to_owned(),
    };
    let wanted = word(wish.policy());
    answer(&options.dir, &format!("grow {wanted} {region}"))?;
    loop {
        let said = answer(&options.dir, "policy")?;
        let said: Said = serde_json::from_value(said).context("the server's answer")?;
        if !said.is_changing && said.policy != wanted {
            return Err(Exit::Failed.error(format!(
                "a member failed meanwhile, or the array is being stopped: its consistency policy is {}, as before",
                said.policy
            )));
        }
        if !said.is_changing {
            break;
        }
        std::thread::sleep(ASK_EVERY);
    }
    println!("{}: the consistency policy is {wanted} now", options.dir.display());
    Ok(Exit::Well)
}

/// Policy that is asked for.
fn wish(options: &Grow) -> Result<Wish> {
    let usage = |said: &str| Err(Exit::Usage.error(said));
    let region = options.bitmap_chunk.map(u32::try_from).transpose();
    let Ok(region) = region else { return usage("--bitmap-chunk: less than 4G") };
    let wish = match (options.bitmap, options.consistency_policy) {
        (None, None) => {
            return usage(
                "nothing to change: say --bitmap=internal|none or --consistency-policy=resync|bitmap|ppl",
            );
        }
        (Some(BitmapWord::Internal), None | Some(PolicyWord::Bitmap)) | (None, Some(PolicyWord::Bitmap)) => {
            Wish::Bitmap(region)
        }
        (Some(BitmapWord::None), None | Some(PolicyWord::Resync)) | (None, Some(PolicyWord::Resync)) => {
            Wish::Resync
        }
        (None, Some(PolicyWord::Ppl)) => Wish::Ppl,
        _ => return usage("--bitmap and --consistency-policy say different things"),
    };
    if options.bitmap_chunk.is_some() && !matches!(wish, Wish::Bitmap(_)) {
        return usage("--bitmap-chunk is given for an array without a bitmap");
    }
    Ok(wish)
}

/// Refuses a reshape, with the lines that do it.
fn expect_no_reshape(options: &Grow, description: &Description) -> Result<()> {
    let asked = [
        ("--raid-devices", &options.raid_devices),
        ("--chunk", &options.chunk),
        ("--level", &options.level),
        ("--layout", &options.layout),
        ("--size", &options.size),
    ];
    let words: Vec<String> =
        asked.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?))).collect();
    if words.is_empty() {
        return Ok(());
    }
    let dir = options.dir.display();
    let paths = description.paths(&options.dir);
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Err(Exit::Usage.error(format!(
        "members are not added and shapes not changed here; mdadm does that: `zoneweave stop {dir}`, \
         `mdadm --assemble /dev/md0 {}`, `mdadm --grow /dev/md0 {}`, and when that is through `mdadm --stop /dev/md0` and \
         `zoneweave serve {dir}`",
        paths.join(" "),
        words.join(" ")
    )))
}

/// `grow resync|bitmap|ppl BYTES|-`: what the server does about it.
pub fn begin(volume: &mut InPlaceVolume, rest: &str) -> Result<()> {
    let unknown =
        || Exit::Usage.error(format!("`grow {rest}` is no question: ask `grow resync|bitmap|ppl BYTES|-`"));
    let (policy, region) = rest.split_once(' ').ok_or_else(unknown)?;
    let wish = match (policy, region) {
        ("resync", "-") => Wish::Resync,
        ("ppl", "-") => Wish::Ppl,
        ("bitmap", "-") => Wish::Bitmap(None),
        ("bitmap", bytes) => Wish::Bitmap(Some(bytes.parse().map_err(|_| unknown())?)),
        _ => return Err(unknown()),
    };
    volume.begin_change(wish).map_err(|refused| match refused {
        ChangeRefused::Cannot(CannotChange::NoRoom(..))
        | ChangeRefused::BadBlocks
        | ChangeRefused::Sectors(_) => Exit::Failed.because(refused),
        ChangeRefused::Cannot(_) => Exit::Usage.because(refused),
        ChangeRefused::Degraded(_) => Exit::Degraded.because(refused),
        _ => Exit::Busy.because(refused),
    })?;
    log::info!("the consistency policy becomes {policy}");
    Ok(())
}

/// `policy`: the policy, and whether it is being changed.
pub fn said(engine: &InPlace) -> Result<String> {
    let said =
        Said { policy: word(engine.core().policy()).to_owned(), is_changing: engine.core().is_changing() };
    Ok(serde_json::to_string(&said)?)
}
