//! The `redis` crate by RESP2 and RESP3: handshake, pipelines with MULTI, scans, timeouts, locks by SET NX PX.

use redis::{
    Client, Commands, Connection, ErrorKind, ExistenceCheck, RedisConnectionInfo, RedisResult,
    ServerErrorKind, SetExpiry, SetOptions, Value,
};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::TcpListener;
use std::time::{Duration, Instant};

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let port: u16 = std::env::args().nth(1).ok_or("the port of the cache")?.parse()?;
    for protocol in ["resp2", "resp3"] {
        let client = Client::open(format!("redis://127.0.0.1:{port}/5?protocol={protocol}"))?;
        let mut connection = client.get_connection()?;
        redis::cmd("FLUSHALL").exec(&mut connection)?;
        handshake(&mut connection, protocol)?;
        values(&mut connection)?;
        pipelines(&mut connection)?;
        scans(&mut connection)?;
        locks(&client)?;
        timeouts(&client)?;
    }
    Ok(())
}

/// Ends the program unless both are the same.
fn check<T: PartialEq + Debug>(what: &str, got: T, wanted: T) {
    if got != wanted {
        println!("{what}: {got:.300?}, and not {wanted:.300?}");
        std::process::exit(1);
    }
}

/// Ends the program unless there was an error of the server with these words.
fn refused(what: &str, answer: RedisResult<Value>, words: &str) {
    match answer {
        Err(error) => check(&format!("{what}: {error}"), error.to_string().contains(words), true),
        Ok(answer) => check(what, format!("{answer:?}"), words.to_owned()),
    }
}

fn soon(what: &str, mut holds: impl FnMut() -> RedisResult<bool>) -> Done {
    let started = Instant::now();
    while !holds()? {
        check(what, started.elapsed() < Duration::from_secs(5), true);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn handshake(connection: &mut Connection, protocol: &str) -> Done {
    let info: redis::InfoDict = redis::cmd("INFO").query(connection)?;
    check("INFO", (info.get("role"), info.get("loading")), (Some("master".to_owned()), Some(0)));
    let own: String = redis::cmd("CLIENT").arg("INFO").query(connection)?;
    let said: Vec<&str> =
        own.split_whitespace().filter(|word| word.starts_with("resp=") || word.starts_with("db=")).collect();
    check("CLIENT INFO", said, vec!["db=5", &format!("resp={}", &protocol[4..])]);
    println!("ok: handshake by {protocol}, INFO, CLIENT INFO");
    Ok(())
}

fn values(connection: &mut Connection) -> Done {
    check("nothing", connection.get::<_, Option<String>>("none")?, None);
    let once =
        SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(60_000));
    check(
        "SET NX PX",
        connection.set_options::<_, _, Option<String>>("s", "old", once.clone())?,
        Some("OK".into()),
    );
    check("SET NX", connection.set_options::<_, _, Option<String>>("s", "new", once)?, None);
    let kept = SetOptions::default().get(true).with_expiration(SetExpiry::KEEPTTL);
    check("SET GET KEEPTTL", connection.set_options::<_, _, String>("s", "new", kept)?, "old".into());
    check("PTTL", connection.pttl::<_, i64>("s")? > 50_000, true);
    check("GETEX", connection.get_ex::<_, String>("s", redis::Expiry::PX(20))?, "new".into());
    soon("expiry", || Ok(!connection.exists::<_, bool>("s")?))?;
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    connection.set::<_, _, ()>(&bytes[..300], &bytes)?;
    check("a MiB of bytes", connection.get::<_, Vec<u8>>(&bytes[..300])? == bytes, true);
    connection.mset::<_, _, ()>(&[("m1", "1"), ("m2", "zwei")])?;
    let many: Vec<Option<String>> = connection.mget(&["m1", "m2", "m3"])?;
    check("MGET", many, vec![Some("1".into()), Some("zwei".into()), None]);
    check("INCR", (connection.incr("m1", 41)?, connection.incr("m1", 0.5)?), (42_i64, 42.5_f64));
    refused("lists", connection.lpush("l", 1), "unknown command 'LPUSH'");
    refused("a word", connection.incr("m2", 1), "not an integer");
    println!("ok: SET NX PX GET KEEPTTL, GETEX, bytes, MGET, INCR, errors");
    Ok(())
}

fn pipelines(connection: &mut Connection) -> Done {
    let mut pipe = redis::pipe();
    for index in 0..5000 {
        pipe.set(format!("many{index}"), index).ignore().get(format!("many{index}"));
    }
    check("10,000 commands", pipe.query::<Vec<u32>>(connection)?, (0..5000).collect());
    let mut pipe = redis::pipe();
    pipe.atomic().set("p", 1).ignore().incr("p", 4).expire("p", 9).ttl("p");
    check("MULTI", pipe.query::<(u32, bool, u32)>(connection)?, (5, true, 9));
    let mut pipe = redis::pipe();
    pipe.atomic().set("p", "y").cmd("NOSUCH");
    let error = pipe.exec(connection).err().map(|error| error.kind());
    check("EXECABORT", error, Some(ErrorKind::Server(ServerErrorKind::ExecAbort)));
    check("nothing of it was done", connection.get::<_, String>("p")?, "5".into());
    println!("ok: a pipeline of 10,000 commands, MULTI, EXECABORT");
    Ok(())
}

fn scans(connection: &mut Connection) -> Done {
    let found = connection.scan_match::<_, String>("many*")?.collect::<RedisResult<BTreeSet<_>>>()?;
    let present: BTreeSet<String> = connection.keys("many*")?;
    check("almost all are there", found.len() > 4950, true);
    check("SCAN", &found, &present);
    println!("ok: SCAN: {} keys, each as KEYS says", found.len());
    Ok(())
}

/// Threads exclude each other; the counter would lose steps otherwise.
fn locks(client: &Client) -> Done {
    client.get_connection()?.set::<_, _, ()>("count", 0)?;
    let steps = || -> RedisResult<()> {
        let mut connection = client.get_connection()?;
        let mine =
            SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(5000));
        for _ in 0..25 {
            while connection.set_options::<_, _, Option<String>>("lock", "mine", mine.clone())?.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let count: u32 = connection.get("count")?;
            connection.set::<_, _, ()>("count", count + 1)?;
            connection.del::<_, ()>("lock")?;
        }
        Ok(())
    };
    let ended: Vec<RedisResult<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(steps)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    ended.into_iter().collect::<RedisResult<()>>()?;
    check("steps", client.get_connection()?.get::<_, u32>("count")?, 100);
    println!("ok: locks by SET NX PX of four threads");
    Ok(())
}

fn timeouts(client: &Client) -> Done {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("redis://127.0.0.1:{}", silent.local_addr()?.port());
    let late = Client::open(address)?.get_connection_with_timeout(Duration::from_millis(50));
    check("a silent server", late.err().map(|error| error.is_timeout()), Some(true));
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    check("one that is not", connection.set::<_, _, String>("t", "1")?, "OK".into());
    let named = RedisConnectionInfo::default().set_db(20);
    let wrong = client.get_connection_info().clone().set_redis_settings(named);
    refused("a database of 20", Client::open(wrong)?.get_connection().map(|_| Value::Okay), "out of range");
    println!("ok: timeouts, a database that is not there");
    Ok(())
}
