//! Commands about the connection itself.

use super::expiry::no_integer;
use crate::resp::answer::{Answer, Protocol};
use crate::resp::call::{Call, Step};
use crate::resp::numbers::integer;
use crate::resp::session::Hearing;
use crate::resp::settings::{DATABASES, REDIS_VERSION};
use cache::request::Namespace;

/// Bytes that a name may have: printable, without spaces.
pub(super) fn is_name(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// PING.
pub(in crate::resp) fn ping(call: &mut Call<'_>) -> Step {
    Step::Answer(match call.arguments.len() {
        1 => Answer::Simple("PONG"),
        2 => Answer::bulk(call.at(1)),
        _ => Answer::error("wrong number of arguments for 'ping' command"),
    })
}

/// ECHO.
pub(in crate::resp) fn echo(call: &mut Call<'_>) -> Step {
    Step::Answer(Answer::bulk(call.at(1)))
}

/// QUIT: nothing that follows is looked at.
pub(in crate::resp) fn quit(call: &mut Call<'_>) -> Step {
    call.state.is_leaving = true;
    Step::Answer(Answer::OK)
}

/// RESET.
pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Step {
    let state = &mut *call.state;
    state.transaction = None;
    state.facts.namespace = Namespace(0);
    state.facts.name.clear();
    state.protocol = Protocol::Two;
    state.hearing = Hearing::default();
    state.is_stranger = call.front.settings.password.is_some();
    Step::Answer(Answer::Simple("RESET"))
}

/// SELECT.
pub(in crate::resp) fn select(call: &mut Call<'_>) -> Step {
    let Some(index) = integer(call.at(1)) else { return Step::Answer(no_integer()) };
    match u8::try_from(index) {
        Ok(index) if index < DATABASES => {
            call.state.facts.namespace = Namespace(index);
            Step::Answer(Answer::OK)
        }
        _ if i32::try_from(index).is_err() => Step::Answer(Answer::error(
            "value is out of range, value must between -2147483648 and 2147483647",
        )),
        _ => Step::Answer(Answer::error("DB index is out of range")),
    }
}

/// TIME: seconds, and microseconds of the second.
pub(in crate::resp) fn time(call: &mut Call<'_>) -> Step {
    let millis = call.front.wall.0;
    let parts = [millis / 1000, millis % 1000 * 1000];
    Step::Answer(Answer::Array(parts.map(|part| Answer::bulk(part.to_string())).to_vec()))
}

/// What is wrong with the words of a client about who it is, if anything.
fn refused(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Option<Answer> {
    let is_right = match &call.front.settings.password {
        None => user == b"default",
        Some(expected) => user == b"default" && is_same(expected, password),
    };
    if is_right {
        call.state.is_stranger = false;
        return None;
    }
    Some(Answer::Error("WRONGPASS invalid username-password pair or user is disabled.".into()))
}

/// Compares all bytes, so that the time does not tell how many are right.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b));
    a.len() == b.len() && differences == 0
}

/// AUTH.
pub(in crate::resp) fn auth(call: &mut Call<'_>) -> Step {
    let (user, password) = match call.arguments.len() {
        2 if call.front.settings.password.is_none() => {
            return Step::Answer(Answer::error(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            ));
        }
        2 => (&b"default"[..], call.at(1)),
        3 => (call.at(1), call.at(2)),
        _ => return Step::Answer(Answer::error("syntax error")),
    };
    Step::Answer(refused(call, user, password).unwrap_or(Answer::OK))
}

/// HELLO [VERSION [AUTH USER PASSWORD] [SETNAME NAME]].
pub(in crate::resp) fn hello(call: &mut Call<'_>) -> Step {
    match greet(call) {
        Ok(protocol) => {
            call.state.protocol = protocol;
            Step::Answer(greeting(call))
        }
        Err(answer) => Step::Answer(answer),
    }
}

fn greet(call: &mut Call<'_>) -> Result<Protocol, Answer> {
    let protocol = match call.arguments.get(1) {
        None => call.state.protocol,
        Some(version) => {
            let no_version = || Answer::error("Protocol version is not an integer or out of range");
            match integer(version).ok_or_else(no_version)? {
                2 => Protocol::Two,
                3 => Protocol::Three,
                _ => return Err(Answer::Error("NOPROTO unsupported protocol version".into())),
            }
        }
    };
    let mut name = None;
    let mut rest = call.arguments.from(2);
    while let Some(option) = rest.next() {
        let wrong = || {
            let option = String::from_utf8_lossy(option);
            Answer::error(format_args!("Syntax error in HELLO option '{option}'"))
        };
        if option.eq_ignore_ascii_case(b"auth") {
            let (user, password) = (rest.next().ok_or_else(wrong)?, rest.next().ok_or_else(wrong)?);
            if let Some(answer) = refused(call, user, password) {
                return Err(answer);
            }
        } else if option.eq_ignore_ascii_case(b"setname") {
            name = Some(rest.next().ok_or_else(wrong)?);
        } else {
            return Err(wrong());
        }
    }
    if call.state.is_stranger {
        let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
                    <pass> option can be used to authenticate the client and select the RESP protocol version at the \
                    same time";
        return Err(Answer::Error(text.into()));
    }
    if let Some(name) = name {
        super::client::rename(call, name)?;
    }
    Ok(protocol)
}

fn greeting(call: &Call<'_>) -> Answer {
    let version = if call.state.protocol == Protocol::Three { 3 } else { 2 };
    let id = i64::try_from(call.state.facts.id).unwrap_or(i64::MAX);
    let pairs = [
        ("server", Answer::bulk("redis")),
        ("version", Answer::bulk(REDIS_VERSION)),
        ("proto", Answer::Integer(version)),
        ("id", Answer::Integer(id)),
        ("mode", Answer::bulk("standalone")),
        ("role", Answer::bulk("master")),
        ("modules", Answer::Array(Vec::new())),
    ];
    Answer::Map(pairs.into_iter().map(|(name, value)| (Answer::bulk(name), value)).collect())
}
