//! CLIENT: what is known of connections, and what they say of themselves.

use super::connection::is_name;
use crate::resp::answer::{Answer, Protocol};
use crate::resp::call::{Call, Step};
use crate::resp::front::Front;
use crate::resp::numbers::integer;
use crate::resp::session::State;
use crate::resp::survey::Wanted;

/// CLIENT ID.
pub(in crate::resp) fn id(call: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Integer(i64::try_from(call.state.facts.id).unwrap_or(i64::MAX)))
}

/// CLIENT GETNAME.
pub(in crate::resp) fn getname(call: &mut Call<'_>) -> Step {
    let name = &call.state.facts.name;
    Step::Answer(if name.is_empty() { Answer::Null } else { Answer::bulk(name) })
}

/// CLIENT SETNAME.
pub(in crate::resp) fn setname(call: &mut Call<'_>) -> Step {
    let name = call.at(2);
    Step::Answer(rename(call, name).map_or_else(|answer| answer, |()| Answer::OK))
}

/// Gives the client a name; none takes it away.
pub(super) fn rename(call: &mut Call<'_>, name: &[u8]) -> Result<(), Answer> {
    if !is_name(name) {
        return Err(Answer::error("Client names cannot contain spaces, newlines or special characters."));
    }
    call.state.facts.name = name.to_vec();
    Ok(())
}

/// CLIENT SETINFO, which Redis has since 7.2: libraries say who they are, and take an error amiss.
pub(in crate::resp) fn setinfo(call: &mut Call<'_>) -> Step {
    let (attribute, value) = (call.at(2), call.at(3));
    if !is_name(value) {
        let attribute = String::from_utf8_lossy(attribute);
        return Step::Answer(Answer::error(format_args!(
            "{attribute} cannot contain spaces, newlines or special characters."
        )));
    }
    let library = &mut call.state.facts.library;
    if attribute.eq_ignore_ascii_case(b"lib-name") {
        library.0 = value.to_vec();
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        library.1 = value.to_vec();
    } else {
        let attribute = String::from_utf8_lossy(attribute);
        return Step::Answer(Answer::error(format_args!("Unrecognized option '{attribute}'")));
    }
    Step::Answer(Answer::OK)
}

/// CLIENT INFO.
pub(in crate::resp) fn info(call: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Text(line(call.state, call.front)))
}

/// CLIENT LIST [TYPE T | ID N...].
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Step {
    let mut ids = Vec::new();
    let mut is_normal = true;
    match call.arguments.get(2).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => {}
        Some(b"type") if call.arguments.len() == 4 => match call.at(3).to_ascii_lowercase().as_slice() {
            b"normal" => {}
            b"master" | b"replica" | b"slave" | b"pubsub" => is_normal = false,
            other => {
                let other = String::from_utf8_lossy(other);
                return Step::Answer(Answer::error(format_args!("Unknown client type '{other}'")));
            }
        },
        Some(b"id") if call.arguments.len() > 3 => {
            for id in call.arguments.from(3) {
                match integer(id) {
                    Some(id) => ids.push(id),
                    None => return Step::Answer(Answer::error("Invalid client ID")),
                }
            }
        }
        Some(_) => return Step::Answer(Answer::error("syntax error")),
    }
    let roster = match call.survey(Wanted::Roster) {
        Ok(survey) => survey.roster,
        Err(step) => return step,
    };
    let is_asked = |line: &&str| {
        let id = line.strip_prefix("id=").and_then(|rest| integer(rest.split(' ').next()?.as_bytes()));
        is_normal && (ids.is_empty() || id.is_some_and(|id| ids.contains(&id)))
    };
    let lines = roster.lines().filter(is_asked);
    Step::Answer(Answer::Text(lines.flat_map(|line| [line, "\n"]).collect()))
}

/// CLIENT NO-EVICT and NO-TOUCH: nobody is closed for memory here but those who do not read, and the use of keys is not
/// told.
pub(in crate::resp) fn no_evict(call: &mut Call<'_>) -> Step {
    let mode = call.at(2);
    let is_known = mode.eq_ignore_ascii_case(b"on") || mode.eq_ignore_ascii_case(b"off");
    Step::Answer(if is_known { Answer::OK } else { Answer::error("syntax error") })
}

/// CLIENT REPLY ON|OFF|SKIP.
pub(in crate::resp) fn reply(call: &mut Call<'_>) -> Step {
    let hearing = &mut call.state.hearing;
    match call.arguments.at(2).to_ascii_lowercase().as_slice() {
        b"on" => (hearing.is_off, hearing.is_muted) = (false, false),
        b"off" => (hearing.is_off, hearing.is_muted) = (true, true),
        b"skip" => (hearing.skips_next, hearing.is_muted) = (!hearing.is_off, true),
        _ => return Step::Answer(Answer::error("syntax error")),
    }
    Step::Answer(Answer::OK)
}

/// A line of CLIENT LIST, with its end.
pub(in crate::resp) fn line(state: &State, front: &Front) -> String {
    let facts = &state.facts;
    let seconds = |since: u64| front.wall.0.saturating_sub(since) / 1000;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (flags, queued) = match &state.transaction {
        Some(transaction) => ("x", i64::try_from(transaction.queue.len()).unwrap_or(i64::MAX)),
        None => ("N", -1),
    };
    let protocol = if state.protocol == Protocol::Three { 3 } else { 2 };
    let held = state.answers_held();
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 \
         multi={queued} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={held} oll=0 omem=0 \
         tot-mem={} events=r cmd={} user=default redir=-1 resp={protocol}\n",
        facts.id,
        facts.addresses.0,
        facts.addresses.1,
        facts.descriptor,
        text(&facts.name),
        seconds(facts.since.0),
        seconds(facts.active.0),
        facts.namespace.0,
        facts.query_bytes,
        held + facts.query_bytes,
        if facts.last.is_empty() { "NULL" } else { facts.last },
    )
}
