//! How programs of each language get their packages, are built and run.

use super::{Places, Program};
use crate::phase::{cargo, run};
use crate::tools;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// A language, or a kind of programs.
pub struct Language {
    /// Name of the language and of its folder.
    pub name: &'static str,
    /// Programs without which nothing of it is tried.
    pub toolchain: &'static [&'static str],
    /// Debian's packages with these.
    pub packages: &'static str,
    /// Files that pin the packages.
    pub pinned: &'static [&'static str],
    /// Gets the packages.
    pub install: fn(&Places) -> Result<()>,
    /// Builds the programs.
    pub build: fn(&Places) -> Result<()>,
    /// The command that runs a program.
    pub command: fn(&Places, &str) -> Command,
    pub programs: &'static [Program],
}

/// Longest time that a package manager takes, in seconds.
const REGISTRY_SECONDS_MAX: &str = "120";
/// Java from which on all libraries of its kind run.
const JAVA_VERSION_MIN: u32 = 17;

const fn program(name: &'static str, library: &'static str) -> Program {
    Program { name, library }
}

pub const LANGUAGES: &[Language] = &[
    Language {
        name: "tools",
        toolchain: &["bash", "redis-cli", "redis-benchmark", "memcaslap"],
        packages: "redis-tools libmemcached-tools",
        pinned: &[],
        install: |_| Ok(()),
        build: |_| Ok(()),
        command: |places, name| Command::new(places.sources.join(format!("{name}.sh"))),
        programs: &[
            program("redis_cli", "redis-cli of Debian"),
            program("redis_benchmark", "redis-benchmark of Debian"),
            program("memcaslap", "memcaslap of Debian's libmemcached"),
        ],
    },
    Language {
        name: "python",
        toolchain: &["python3"],
        packages: "python3 python3-pip",
        pinned: &["requirements.txt"],
        install: install_python,
        build: |_| Ok(()),
        command: |places, name| {
            let mut command = Command::new("python3");
            command
                .arg(places.sources.join(format!("{name}.py")))
                .env("PYTHONPATH", places.made.join("site"));
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            command
        },
        programs: &[
            program("redis_py", "redis 8.1.0"),
            program("pymemcache_client", "pymemcache 4.0.0"),
            program("django_cache", "Django 5.2.19"),
            program("flask_cache", "Flask-Caching 2.5.1"),
        ],
    },
    Language {
        name: "node",
        toolchain: &["node", "npm"],
        packages: "nodejs npm",
        pinned: &["package.json", "package-lock.json"],
        install: install_node,
        build: |_| Ok(()),
        command: |places, name| {
            let mut command = Command::new("node");
            command.arg(places.sources.join(format!("{name}.js")));
            command.env("NODE_PATH", places.made.join("node_modules"));
            command
        },
        programs: &[
            program("ioredis", "ioredis 5.8.2"),
            program("node_redis", "redis 6.3.1"),
            program("memcached", "memcached 2.2.2"),
        ],
    },
    Language {
        name: "go",
        toolchain: &["go"],
        packages: "golang",
        pinned: &["go.mod", "go.sum"],
        install: |places| run(go(places).args(["mod", "download"])),
        build: build_go,
        command: |places, name| Command::new(places.made.join("bin").join(name)),
        programs: &[program("goredis", "go-redis 9.23.0"), program("gomemcache", "gomemcache 4d751bb6e37c")],
    },
    Language {
        name: "rust",
        toolchain: &["cargo"],
        packages: "cargo",
        pinned: &["Cargo.toml", "Cargo.lock"],
        install: |places| run(cargo_of(places, "fetch").arg("--locked")),
        build: |places| run(cargo_of(places, "build").args(["--locked", "--target-dir"]).arg(&places.made)),
        command: |places, _| Command::new(places.made.join("debug/zoneweave-clients")),
        programs: &[program("redis_crate", "redis 1.8.1")],
    },
    Language {
        name: "c",
        toolchain: &["cc"],
        packages: "gcc libc6-dev",
        pinned: &[],
        install: |_| tools::install_for("libhiredis-dev", Path::new("/usr/include/hiredis/hiredis.h")),
        build: build_c,
        command: |places, name| Command::new(places.made.join(name)),
        programs: &[program("hiredis", "hiredis of Debian")],
    },
    Language {
        name: "java",
        toolchain: &["java", "javac", "mvn"],
        packages: "default-jdk-headless maven",
        pinned: &["pom.xml"],
        install: install_java,
        build: build_java,
        command: |places, name| {
            let mut command = Command::new("java");
            command.arg("-cp").arg(classpath(places)).arg(name);
            command
        },
        programs: &[
            program("Lettuce", "lettuce 7.7.0"),
            program("Jedis", "jedis 8.0.2"),
            program("Spymemcached", "spymemcached 2.12.3"),
        ],
    },
];

fn install_python(places: &Places) -> Result<()> {
    let pip = |words: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip"]).args(words);
        command
    };
    let has_pip = pip(&["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status()?.success();
    if !has_pip {
        bail!("python3 has no pip (Debian: apt-get install -y python3-pip)");
    }
    let mut install = pip(&["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]);
    install.arg("--target").arg(places.made.join("site")).arg("--requirement");
    run(install.arg(places.sources.join("requirements.txt")))
}

fn install_node(places: &Places) -> Result<()> {
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(places.sources.join(file), places.made.join(file)).context(file)?;
    }
    let mut install = from_registry("npm");
    run(install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&places.made))
}

/// Go as it is here: one that is too old says so, instead of downloading another one.
fn go(places: &Places) -> Command {
    let mut command = from_registry("go");
    command.current_dir(&places.sources).env("GOFLAGS", "-mod=readonly").env("GOTOOLCHAIN", "local");
    command.env("CGO_ENABLED", "0");
    command
}

/// On a fresh machine all of Go's own library is compiled: without inlining that takes half the time.
fn build_go(places: &Places) -> Result<()> {
    let mut build = go(places);
    build.args(["build", "-gcflags=all=-l", "-ldflags=-w", "-o"]).arg(places.made.join("bin/")).arg("./...");
    run(&mut build)
}

/// A program that may wait for a registry, but not forever.
fn from_registry(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args([REGISTRY_SECONDS_MAX, program]);
    command
}

fn cargo_of(places: &Places, what: &str) -> Command {
    let mut command = cargo();
    command.arg(what).arg("--manifest-path").arg(places.sources.join("Cargo.toml"));
    command
}

fn build_c(places: &Places) -> Result<()> {
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(places.made.join("hiredis"));
    run(compile.arg(places.sources.join("hiredis.c")).arg("-lhiredis"))
}

fn install_java(places: &Places) -> Result<()> {
    let output = Command::new("javac").arg("-version").output().context("javac")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version =
        said.trim().trim_start_matches("javac ").split('.').next().and_then(|text| text.parse().ok());
    if version.is_none_or(|version: u32| version < JAVA_VERSION_MIN) {
        bail!("`{}` is older than Java {JAVA_VERSION_MIN}", said.trim());
    }
    let mut copy = from_registry("mvn");
    copy.args(["--quiet", "--batch-mode", "--file"]).arg(places.sources.join("pom.xml"));
    copy.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies");
    run(copy.arg(format!("-DoutputDirectory={}", places.made.join("jars").display())))
}

fn build_java(places: &Places) -> Result<()> {
    let mut compile = Command::new("javac");
    compile.arg("-d").arg(places.made.join("classes")).arg("-cp").arg(classpath(places));
    for file in ["Check", "Lettuce", "Jedis", "Spymemcached"] {
        compile.arg(places.sources.join(format!("{file}.java")));
    }
    run(&mut compile)
}

fn classpath(places: &Places) -> String {
    format!("{}:{}/*", places.made.join("classes").display(), places.made.join("jars").display())
}
