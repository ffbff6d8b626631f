//! `zoneweave md detail`: an array in the words of `mdadm --detail`, served or not. What it is, superblocks say; how it is, its server.

use super::Detail;
use super::array::{Access, Array};
use super::description::Description;
use super::report::{MemberReport, Report};
use super::status;
use crate::exit::Exit;
use anyhow::Result;
use block::md::assembly::{Assembly, Part};
use block::md::examine::{array_bytes, human_size};
use block::md::member::Member;
use block::md::superblock::seconds;
use block::md::{SECTOR_BYTES_U64, names};
use std::fmt::{self, Write};
use std::os::linux::fs::MetadataExt;

/// Prints an array.
pub fn run(options: &Detail) -> Result<Exit> {
    let dir = &options.dir;
    let report = status::current(dir)?;
    let description = Description::open(dir)?;
    let array = Array::open_those_there(&description.uuid, &description.paths(dir), Access::Look)?;
    let assembly = array.judge()?;
    let mut text = String::new();
    if options.export {
        print_export(&assembly, &report, &mut text)?;
    } else {
        let name = dir.display().to_string();
        let of_array = OfArray { name: &name, assembly: &assembly, report: &report };
        of_array.print(&mut text)?;
    }
    print!("{text}");
    Ok(report.exit())
}

/// Array with what is known of it.
struct OfArray<'a> {
    name: &'a str,
    assembly: &'a Assembly<'a>,
    report: &'a Report,
}

impl OfArray<'_> {
    fn print(&self, text: &mut dyn Write) -> fmt::Result {
        writeln!(text, "{}:", self.name)?;
        self.print_shape(text)?;
        self.print_state(text)?;
        self.print_identity(text)?;
        self.print_members(text)
    }

    fn print_shape(&self, text: &mut dyn Write) -> fmt::Result {
        let superblock = self.assembly.superblock();
        let shape = superblock.shape;
        let (newest, _) = self.assembly.devices[self.assembly.newest];
        writeln!(text, "           Version : {}", newest.version)?;
        writeln!(
            text,
            "     Creation Time : {}",
            super::words::local_time(seconds(superblock.array.created))
        )?;
        writeln!(text, "        Raid Level : {}", names::level(shape.level).unwrap_or("-unknown-"))?;
        if let Some(bytes) = array_bytes(superblock) {
            writeln!(text, "        Array Size : {}{}", bytes >> 10, human_size(bytes))?;
        }
        let used = u128::from(shape.size) * u128::from(SECTOR_BYTES_U64);
        writeln!(text, "     Used Dev Size : {}{}", used >> 10, human_size(used))?;
        writeln!(text, "      Raid Devices : {}", shape.members)?;
        writeln!(
            text,
            "     Total Devices : {}",
            self.rows().len() - self.count("missing") + self.spares().count() + self.replacements().count()
        )?;
        writeln!(text, "       Persistence : Superblock is persistent\n")?;
        if self.report.bitmap.is_some() {
            writeln!(text, "     Intent Bitmap : Internal\n")?;
        }
        Ok(())
    }

    fn print_state(&self, text: &mut dyn Write) -> fmt::Result {
        let superblock = self.assembly.superblock();
        let shape = superblock.shape;
        writeln!(
            text,
            "       Update Time : {}",
            super::words::local_time(seconds(superblock.state.updated))
        )?;
        writeln!(text, "             State : {} ", self.state())?;
        let (active, rebuilding) = (self.count("active"), self.count("rebuilding"));
        let spares = rebuilding + self.spares().count() + self.replacements().count();
        writeln!(text, "    Active Devices : {active}")?;
        writeln!(text, "   Working Devices : {}", active + spares)?;
        writeln!(text, "    Failed Devices : 0")?;
        writeln!(text, "     Spare Devices : {spares}\n")?;
        if let Some(layout) = names::layout(shape.level, shape.layout) {
            writeln!(text, "            Layout : {layout}")?;
        }
        writeln!(text, "        Chunk Size : {}K\n", shape.chunk / 2)?;
        writeln!(text, "Consistency Policy : {}\n", self.report.identity.policy)?;
        let sweeps = [
            ("    Resync Status", self.report.upkeep.resync),
            ("   Rebuild Status", self.report.members.iter().find_map(rebuild_of)),
            ("     Check Status", self.running_scrub()),
        ];
        for (label, progress) in sweeps {
            if let Some(progress) = progress {
                writeln!(text, "{label} : {:.0}% complete\n", progress.percent.floor())?;
            }
        }
        Ok(())
    }

    fn print_identity(&self, text: &mut dyn Write) -> fmt::Result {
        let superblock = self.assembly.superblock();
        writeln!(text, "              Name : {}", superblock.name())?;
        writeln!(text, "              UUID : {}", superblock.array.uuid)?;
        writeln!(text, "            Events : {}\n", self.report.events)
    }

    fn print_members(&self, text: &mut dyn Write) -> fmt::Result {
        writeln!(text, "    Number   Major   Minor   RaidDevice State")?;
        for row in self.rows() {
            let word = match row.state.as_str() {
                "active" => "active sync",
                "rebuilding" => "spare rebuilding",
                _ => "removed",
            };
            let Some(member) = self.member(row.role).filter(|_| word != "removed") else {
                writeln!(text, "       -       0        0    {:>5}      {word}", row.role)?;
                continue;
            };
            let (number, path) = (member.superblock().device.number.0, &member.name);
            let (major, minor) = device_numbers(path);
            writeln!(
                text,
                "    {number:>4}   {major:>5}    {minor:>5}    {:>5}      {word}   {path}",
                row.role
            )?;
            for copy in self.replacements().filter(|(role, _)| *role == row.role).map(|(_, copy)| copy) {
                let (major, minor) = device_numbers(&copy.name);
                let number = copy.superblock().device.number.0;
                writeln!(
                    text,
                    "    {number:>4}   {major:>5}    {minor:>5}    {:>5}      spare rebuilding   {}",
                    row.role, copy.name
                )?;
            }
        }
        let mut others = self.spares().peekable();
        if others.peek().is_some() {
            writeln!(text)?;
        }
        for spare in others {
            let (major, minor) = device_numbers(&spare.name);
            let number = spare.superblock().device.number.0;
            writeln!(
                text,
                "    {number:>4}   {major:>5}    {minor:>5}        -      spare   {}",
                spare.name
            )?;
        }
        Ok(())
    }

    /// State in mdadm's words: parities, members, what goes on.
    fn state(&self) -> String {
        let report = self.report;
        let mut words = vec![if report.dirty { "active" } else { "clean" }];
        if report.state == "failed" {
            words.push("FAILED");
        } else if self.count("active") < self.rows().len() {
            words.push("degraded");
        }
        if report.upkeep.resync.is_some() {
            words.push("resyncing");
        }
        if self.count("rebuilding") > 0 || self.rows().iter().any(|row| row.replacement.is_some()) {
            words.push("recovering");
        }
        if self.running_scrub().is_some() {
            words.push("checking");
        }
        words.join(", ")
    }

    fn running_scrub(&self) -> Option<crate::progress::Progress> {
        self.report.upkeep.scrub.as_ref().filter(|scrub| scrub.state == "running").map(|scrub| scrub.progress)
    }

    fn rows(&self) -> &[MemberReport] {
        &self.report.members
    }

    fn count(&self, state: &str) -> usize {
        self.rows().iter().filter(|member| member.state == state).count()
    }

    fn spares(&self) -> impl Iterator<Item = &Member> {
        self.assembly.devices.iter().filter(|(_, part)| *part == Part::Spare).map(|(member, _)| *member)
    }

    /// Devices that are to replace members, each with the role.
    fn replacements(&self) -> impl Iterator<Item = (u16, &Member)> {
        self.assembly.devices.iter().filter_map(|(member, part)| match part {
            Part::Replacement(role, _) => Some((role.0, *member)),
            _ => None,
        })
    }

    fn member(&self, role: u16) -> Option<&Member> {
        let is_of =
            |part: &Part| matches!(part, Part::Active(own) | Part::Recovering(own, _) if own.0 == role);
        self.assembly.devices.iter().find(|(_, part)| is_of(part)).map(|(member, _)| *member)
    }
}

/// Progress of the rebuild of a member, or of the copy to its replacement.
fn rebuild_of(member: &MemberReport) -> Option<crate::progress::Progress> {
    member.rebuild.or_else(|| member.replacement.as_ref().map(|replacement| replacement.progress))
}

/// Major and minor number of a block device; zeros of a file.
fn device_numbers(path: &str) -> (u64, u64) {
    let number = std::fs::metadata(path).map_or(0, |found| found.st_rdev());
    ((number >> 8) & 0xfff | (number >> 32) & !0xfff, number & 0xff | (number >> 12) & 0xff_ff00)
}

/// Names and values, as `mdadm --detail --export` prints them.
fn print_export(assembly: &Assembly<'_>, report: &Report, text: &mut dyn Write) -> fmt::Result {
    let superblock = assembly.superblock();
    let (newest, _) = assembly.devices[assembly.newest];
    writeln!(text, "MD_LEVEL={}", report.identity.level)?;
    writeln!(text, "MD_DEVICES={}", superblock.shape.members)?;
    writeln!(text, "MD_METADATA={}", newest.version)?;
    writeln!(text, "MD_UUID={}", superblock.array.uuid)?;
    let name = superblock.name();
    let device = name.split_once(':').map_or(name.as_str(), |(_, name)| name);
    writeln!(text, "MD_DEVNAME={device}")?;
    writeln!(text, "MD_NAME={name}")?;
    for member in report.members.iter().filter(|member| member.state != "missing") {
        let Some(path) = &member.path else { continue };
        let key: String = path
            .trim_start_matches('/')
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let role = if member.state == "active" { member.role.to_string() } else { "spare".to_owned() };
        writeln!(text, "MD_DEVICE_{key}_ROLE={role}")?;
        writeln!(text, "MD_DEVICE_{key}_DEV={path}")?;
    }
    Ok(())
}
