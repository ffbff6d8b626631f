//! `stats`: what the server says of itself. Only what is known is told.

use super::said::Said;
use crate::resp::front::{Backend, Front, Statistics};
use cache::request::Namespace;

/// stats [settings|items|slabs|sizes|conns|reset].
pub(super) fn tell(what: &[u8], namespace: Namespace, front: &mut Front, cache: &dyn Backend) -> Said {
    let lines = match what {
        b"" => general(namespace, front, cache),
        b"settings" => vec![
            ("maxbytes", front.settings.memory_bytes.to_string()),
            ("maxconns", front.settings.clients_max.to_string()),
            ("item_size_max", front.settings.object_bytes_max.to_string()),
            ("cas_enabled", "yes".to_owned()),
            ("flush_enabled", "yes".to_owned()),
            ("binding_protocol", "ascii".to_owned()),
        ],
        // One class of all sizes.
        b"items" => vec![("items:1:number", cache.objects(namespace).to_string())],
        // There are none.
        b"slabs" | b"sizes" => Vec::new(),
        b"conns" => vec![("curr_connections", front.clients.to_string())],
        b"reset" => {
            front.statistics = Statistics::default();
            return Said::line("RESET");
        }
        _ => return Said::line("ERROR"),
    };
    let mut text = String::new();
    for (name, value) in lines {
        text += &format!("STAT {name} {value}\r\n");
    }
    Said::line(text + "END")
}

fn general(namespace: Namespace, front: &Front, cache: &dyn Backend) -> Vec<(&'static str, String)> {
    let (statistics, facts) = (&front.statistics, cache.facts());
    vec![
        ("pid", std::process::id().to_string()),
        ("uptime", front.uptime_seconds().to_string()),
        ("time", (front.wall.0 / 1000).to_string()),
        ("version", "1.6.18".to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("max_connections", front.settings.clients_max.to_string()),
        ("curr_connections", front.clients.to_string()),
        ("total_connections", statistics.connections.to_string()),
        ("rejected_connections", statistics.connections_refused.to_string()),
        ("get_hits", statistics.hits.to_string()),
        ("get_misses", statistics.misses.to_string()),
        ("bytes_read", statistics.bytes_in.to_string()),
        ("bytes_written", statistics.bytes_out.to_string()),
        ("limit_maxbytes", facts.memory_bytes_max.to_string()),
        ("threads", "1".to_owned()),
        ("bytes", facts.memory_bytes.to_string()),
        ("curr_items", cache.objects(namespace).to_string()),
    ]
}
