//! CLIENT KILL: closes connections of Redis' clients, the asking one after its answer.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::front::Notice;
use crate::resp::numbers::integer;
use crate::resp::survey::Wanted;

/// Which clients are meant.
#[derive(Debug)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    is_normal: bool,
    skips_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Filter<'a>, Answer> {
        let syntax_error = || Answer::error("syntax error");
        let mut filter =
            Filter { id: None, address: None, local_address: None, is_normal: true, skips_me: true };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(syntax_error)?;
            let quoted = String::from_utf8_lossy(value);
            match word.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = integer(value).filter(|id| *id > 0);
                    filter.id = Some(id.ok_or_else(|| Answer::error("client-id should be greater than 0"))?);
                }
                b"type" => match value.to_ascii_lowercase().as_slice() {
                    b"normal" => {}
                    b"master" | b"replica" | b"slave" | b"pubsub" => filter.is_normal = false,
                    _ => return Err(Answer::error(format_args!("Unknown client type '{quoted}'"))),
                },
                b"user" if value == b"default" => {}
                b"user" => return Err(Answer::error(format_args!("No such user '{quoted}'"))),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skips_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skips_me = false,
                _ => return Err(syntax_error()),
            }
        }
        Ok(filter)
    }

    /// Number of the client of a line of CLIENT LIST, if it is meant.
    fn find(&self, line: &str, me: u64) -> Option<u64> {
        let field =
            |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let id: u64 = field("id")?.parse().ok()?;
        let is = |name: &str, wanted: Option<&[u8]>| {
            wanted.is_none_or(|wanted| field(name).is_some_and(|text| text.as_bytes() == wanted))
        };
        let is_asked = self.id.is_none_or(|wanted| u64::try_from(wanted) == Ok(id));
        let is_meant =
            self.is_normal && is_asked && is("addr", self.address) && is("laddr", self.local_address);
        (is_meant && !(self.skips_me && id == me)).then_some(id)
    }
}

/// CLIENT KILL ADDRESS, or with filters.
pub(in crate::resp) fn kill(call: &mut Call<'_>) -> Step {
    let is_old_form = call.arguments.len() == 3;
    let filter = if is_old_form {
        let address = Some(call.at(2));
        Filter { id: None, address, local_address: None, is_normal: true, skips_me: false }
    } else {
        match Filter::parse(call.arguments.from(2)) {
            Ok(filter) => filter,
            Err(answer) => return Step::Answer(answer),
        }
    };
    let roster = match call.survey(Wanted::Roster) {
        Ok(survey) => survey.roster,
        Err(step) => return step,
    };
    let me = call.state.facts.id;
    let found: Vec<u64> = roster.lines().filter_map(|line| filter.find(line, me)).collect();
    if found.contains(&me) {
        call.state.is_leaving = true;
    }
    let count = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let others = found.into_iter().filter(|id| *id != me).collect();
    call.front.notices.push(Notice::End(others));
    Step::Answer(match (is_old_form, count) {
        (true, 0) => Answer::error("No such client"),
        (true, _) => Answer::OK,
        (false, count) => Answer::Integer(count),
    })
}
