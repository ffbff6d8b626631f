//! fio's own verification on a served array, while a member fails and another one is rebuilt in its place.
//!
//! Slow: it is played where rounds of ping-pong are asked for, as by `cargo xtask md`.

use crate::support::md::{blanks, create, rebuild_and_wait, serve_in_sync};
use crate::support::run::{SOON, command, until};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, let_run, status};
use crate::support::{have, number_from, text};
use std::process::Stdio;
use std::time::Duration;

/// Time in which fio writes and verifies what it wrote, over and over.
const SECONDS: &str = "12";

#[test]
fn fio_finds_what_it_wrote_while_a_member_fails_and_is_rebuilt() {
    if number_from("ZONEWEAVE_MD_ROUNDS", 0) == 0 || !have(&["fio"]) {
        return;
    }
    let policies: [(&str, &[&str]); 3] = [
        ("5", &["--bitmap-chunk", "1M"]),
        ("6", &["--consistency-policy", "resync"]),
        ("5", &["--consistency-policy", "ppl"]),
    ];
    for (level, options) in policies {
        let scratch = Scratch::new("md-fio");
        let members = blanks(&scratch, 4);
        let dir = create(&scratch, level, &members, options);
        let (server, _) = serve_in_sync(&dir);
        rebuild_and_wait(&dir).expect("a whole array");
        let mut fio = command("fio");
        fio.current_dir(scratch.path()).args([
            "--name=job",
            "--ioengine=nbd",
            &format!("--uri={}", server.uri()),
        ]);
        fio.args(["--rw=randwrite", "--bssplit=4k/60:64k/30:256k/10", "--iodepth=16", "--size=32m"]);
        fio.args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--verify_backlog=64"]);
        fio.args(["--time_based", &format!("--runtime={SECONDS}"), "--output=said"]);
        let mut fio = fio.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let written = || status(&dir)["counters"]["blocks_written"].as_u64().unwrap();
        assert!(until(SOON, || written() > 1000), "fio does not write: {}", server.log());
        let member = &members[1];
        ask(&["md", "fail", text(&dir), text(member)]).expect("md fail");
        ask(&["md", "remove", text(&dir), text(member)]).expect("md remove");
        std::fs::remove_file(member).unwrap();
        let_run(Duration::from_secs(1));
        std::fs::File::create(member).unwrap().set_len(24 << 20).unwrap();
        ask(&["md", "add", text(&dir), text(member)]).expect("md add");
        let (before, case) = (written(), format!("RAID-{level} {options:?}"));
        rebuild_and_wait(&dir).expect("the rebuild");
        assert!(written() > before, "{case}: fio was through before the rebuild");
        let has_ended = until(SOON * 2, || fio.try_wait().unwrap().is_some());
        let said = std::fs::read_to_string(scratch.join("said")).unwrap_or_default();
        assert!(has_ended && fio.wait().unwrap().success() && said.contains("err= 0"), "{case}: {said}");
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{case}: {checked}");
    }
}
