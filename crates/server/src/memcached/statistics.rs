//! `stats`: what the server says of itself. Only what is known is told.

use super::said::Said;
use crate::resp::front::{Front, Notice, Statistics};
use crate::resp::survey::Survey;
use cache::request::Namespace;

/// stats [settings|items|slabs|sizes|conns|reset]; `None` when it needs [`Front::survey`] first.
pub(super) fn tell(what: &[u8], namespace: Namespace, front: &mut Front) -> Option<Said> {
    let needs_survey = matches!(what, b"" | b"items" | b"conns");
    if needs_survey && front.survey.is_none() {
        return None;
    }
    let survey = front.survey.take().unwrap_or_default();
    let lines = match what {
        b"" => general(namespace, front, &survey),
        b"settings" => vec![
            ("maxbytes", front.settings.memory_bytes.to_string()),
            ("maxconns", front.settings.clients_max.to_string()),
            ("item_size_max", front.settings.object_bytes_max.to_string()),
            ("cas_enabled", "yes".to_owned()),
            ("flush_enabled", "yes".to_owned()),
            ("binding_protocol", "ascii".to_owned()),
        ],
        // One class of all sizes.
        b"items" => vec![("items:1:number", survey.objects_in(namespace).to_string())],
        // There are none.
        b"slabs" | b"sizes" => Vec::new(),
        b"conns" => vec![("curr_connections", survey.clients.to_string())],
        b"reset" => {
            front.statistics = Statistics::default();
            front.notices.push(Notice::ResetStatistics);
            return Some(Said::line("RESET"));
        }
        _ => return Some(Said::line("ERROR")),
    };
    let mut text = String::new();
    for (name, value) in lines {
        text += &format!("STAT {name} {value}\r\n");
    }
    Some(Said::line(text + "END"))
}

fn general(namespace: Namespace, front: &Front, survey: &Survey) -> Vec<(&'static str, String)> {
    let Survey { statistics, facts, .. } = survey;
    vec![
        ("pid", std::process::id().to_string()),
        ("uptime", front.uptime_seconds().to_string()),
        ("time", (front.wall.0 / 1000).to_string()),
        ("version", "1.6.18".to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("max_connections", front.settings.clients_max.to_string()),
        ("curr_connections", survey.clients.to_string()),
        ("total_connections", statistics.connections.to_string()),
        ("rejected_connections", statistics.connections_refused.to_string()),
        ("get_hits", statistics.hits.to_string()),
        ("get_misses", statistics.misses.to_string()),
        ("bytes_read", statistics.bytes_in.to_string()),
        ("bytes_written", statistics.bytes_out.to_string()),
        ("limit_maxbytes", facts.memory_bytes_max.to_string()),
        ("threads", front.settings.cores.to_string()),
        ("bytes", facts.memory_bytes.to_string()),
        ("curr_items", survey.objects_in(namespace).to_string()),
    ]
}
