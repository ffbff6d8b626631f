//! A virtual machine: a kernel of Debian under QEMU without KVM, with a volume as its disk over vhost-user, or with drives of its own
//! and this program inside.

pub use super::kernel::Kernel;
use super::kernel::{PREPARATION_MAX, Unpacked};
use super::run::{command, line_of, run_for};
use super::scratch::Scratch;
use super::server::let_run;
use super::{have, is_root, number_from, skip, text};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vmm_sys_util::rand::timestamp_cycles;

/// Programs that any machine needs.
pub const TOOLS: &[&str] = &["qemu-system-x86_64", "busybox", "modprobe", "depmod", "cpio", "dpkg", "xz"];

/// Longest time in which a machine that runs a test says nothing. How long all of it takes depends on who else uses the host.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Between two looks at what a machine says.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time in which the time stamp counter is watched.
const COUNTED_FOR: Duration = Duration::from_millis(200);

/// Memory of a machine that runs a test, in MiB.
const INSIDE_MEMORY: u32 = 3072;

/// All that QEMU emulates but two: it works out a carry-less product bit by bit, where tables of CRC32C are faster by much, and
/// copies byte by byte where a processor says that this is fast.
const PROCESSOR: &str = "max,-pclmulqdq,-erms";

/// Shortens tests: `cargo xtask guest --short` sets it.
const SHORT: &str = "ZONEWEAVE_GUEST_SHORT";

/// Says that this program runs in the machine.
const INSIDE: &str = "ZONEWEAVE_INSIDE";

const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs tmp /dev/shm; mount -t tmpfs tmp /tmp; ip link set lo up
for module in /modules/*.ko; do insmod $module $(cat $module.options 2> /dev/null); done
sh /work.sh > /dev/ttyS0 2>&1
echo \"work ended with $?\" > /dev/ttyS0
sync; sleep 1; poweroff -f
";

/// Parts of a machine.
pub struct Parts<'a> {
    pub kernel: Kernel,
    /// MiB of memory.
    pub memory_mib: u32,
    /// Options of QEMU for its devices.
    pub devices: Vec<String>,
    /// Modules of the kernel, with spaces between them; with options, `MODULE:NAME=VALUE:NAME=VALUE`.
    pub modules: &'a str,
    /// Programs of this host, by name.
    pub programs: &'a [&'a str],
    /// Programs that the machine has at the same place as this host, without what debuggers read.
    pub files: &'a [&'a Path],
    /// Shell script that it runs as root.
    pub script: &'a str,
}

/// A machine that runs, ended when dropped.
pub struct Machine {
    pub child: Child,
    console: PathBuf,
}

impl Machine {
    /// Boots one whose disk, `/dev/vda`, is served at a socket, and runs the shell script.
    #[track_caller]
    pub fn boot(scratch: &Path, disk: &Path, script: &str) -> Machine {
        Machine::of(
            scratch,
            &Parts {
                kernel: Kernel::Current,
                memory_mib: 512,
                devices: ["-chardev", &format!("socket,id=disk,path={},reconnect=1", text(disk))]
                    .into_iter()
                    .chain(["-device", "vhost-user-blk-pci,chardev=disk,num-queues=2"])
                    .map(str::to_owned)
                    .collect(),
                modules: "virtio_pci virtio_blk ext4 crc32c_generic",
                programs: &["mkfs.ext4", "e2fsck"],
                files: &[],
                script,
            },
        )
    }

    /// Boots a machine of these parts, and runs its script.
    #[track_caller]
    pub fn of(scratch: &Path, parts: &Parts) -> Machine {
        let kernel = parts.kernel.provide();
        let image = initrd(scratch, &kernel, parts);
        let console = scratch.join("console");
        // That of a machine before would be taken for what this one says.
        let _none_before = std::fs::remove_file(&console);
        let memory = parts.memory_mib;
        let mut qemu = qemu();
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot", "-smp", "2"]);
        qemu.args(["-cpu", PROCESSOR, "-accel", "tcg,thread=multi"]);
        qemu.args(["-machine", "q35,memory-backend=ram", "-m", &format!("{memory}M")]);
        qemu.args(["-object", &format!("memory-backend-memfd,id=ram,size={memory}M,share=on")]);
        qemu.args(&parts.devices);
        qemu.arg("-serial").arg(format!("file:{}", text(&console)));
        qemu.arg("-kernel").arg(&kernel.image);
        qemu.arg("-initrd").arg(image);
        // What the kernel measures of the time stamp counter on a busy host is wrong by up to ten times, and every limit with it, so it
        // is told: other clocks are slow to read, and go back when a tick comes seconds late. Late interrupts of the timer are no panic.
        qemu.arg("-append").arg(format!(
            "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr mitigations=off tsc=reliable tsc_early_khz={} no_timer_check \
             random.trust_cpu=on cryptomgr.notests",
            counter_khz()
        ));
        let log = File::create(scratch.join("qemu.log")).unwrap();
        qemu.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let line = line_of(&qemu);
        let child = qemu.spawn().unwrap_or_else(|error| panic!("`{line}` did not start: {error}"));
        Machine { child, console }
    }

    /// Console output so far.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// True when it is off, as after a panic of its kernel.
    fn is_off(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        super::run::kill(&mut self.child);
        if std::thread::panicking() {
            println!("--- console of the machine\n{}", self.console());
        }
    }
}

/// A test of this program that runs in a machine.
pub struct Inside<'a> {
    pub name: &'a str,
    pub kernel: Kernel,
    /// Options of QEMU for its devices.
    pub devices: Vec<String>,
    /// Modules of the kernel, as in [`Parts`].
    pub modules: &'a str,
    /// Programs of this host, by name.
    pub programs: &'a [&'a str],
    /// Shell commands before the test.
    pub prepare: &'a str,
}

/// Boots a machine in which this program runs one of its tests, and prints the lines of that which begin with a dash.
#[track_caller]
pub fn run_inside(scratch: &Scratch, inside: Inside<'_>) {
    let own = std::env::current_exe().unwrap();
    let seed = number_from("ZONEWEAVE_SEED", 26);
    let Inside { name, kernel, devices, modules, programs, prepare } = inside;
    let short = u32::from(is_short());
    let script = format!(
        "set -e; export {INSIDE}=1 {SHORT}={short} ZONEWEAVE_SEED={seed} RUST_BACKTRACE=1; uname -r
         {prepare}
         {} --exact {name} --nocapture",
        text(&own)
    );
    let files = &[&*own, Path::new(env!("CARGO_BIN_EXE_zoneweave"))];
    let parts =
        Parts { kernel, memory_mib: INSIDE_MEMORY, devices, modules, programs, files, script: &script };
    let mut machine = Machine::of(scratch.path(), &parts);
    // The console may end within a line.
    let is_end =
        |line: &str| line.trim().strip_prefix("work ended with ").is_some_and(|code| !code.is_empty());
    let has_ended = |machine: &Machine| machine.console().lines().any(is_end);
    let (mut said, mut since) = (0, Instant::now());
    while !has_ended(&machine) && !machine.is_off() && since.elapsed() < SILENCE_MAX {
        let now = machine.console().len();
        if now != said {
            (said, since) = (now, Instant::now());
        }
        let_run(LOOK_EVERY);
    }
    let console = machine.console();
    assert!(has_ended(&machine) && console.contains("work ended with 0"), "{console}");
    println!("{}", console.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>().join("\n"));
}

/// True in the machine.
pub fn is_inside() -> bool {
    number_from(INSIDE, 0) == 1
}

/// True when the test shall run here and can, with this kernel; where it runs in the machine, it is another one.
pub fn is_asked_for(kernel: Kernel, programs: &[&str]) -> bool {
    if number_from("ZONEWEAVE_GUEST", 0) == 0 {
        println!("skipped: `cargo xtask guest` runs it");
        return false;
    }
    if !is_root() {
        return skip("virtual machines are made by root alone");
    }
    have(&[TOOLS, programs].concat()) && kernel.try_provide().map_or_else(|reason| skip(&reason), |_| true)
}

/// The same of a test that `--short` leaves out.
pub fn is_asked_for_in_full(kernel: Kernel, programs: &[&str]) -> bool {
    if is_short() {
        println!("skipped: `cargo xtask guest` without --short runs it");
        return false;
    }
    is_asked_for(kernel, programs)
}

/// True when a shorter form of a test is asked for.
pub fn is_short() -> bool {
    number_from(SHORT, 0) == 1
}

/// QEMU: that of `ZONEWEAVE_QEMU`, with the options in it, or that of this host.
fn qemu() -> Command {
    let named = std::env::var("ZONEWEAVE_QEMU").unwrap_or_else(|_| "qemu-system-x86_64".to_owned());
    let mut words = named.split_whitespace();
    let mut qemu = command(words.next().expect("ZONEWEAVE_QEMU names a program"));
    qemu.args(words);
    qemu
}

/// Frequency of this host's time stamp counter, which is that of machines without KVM.
fn counter_khz() -> u64 {
    static KHZ: OnceLock<u64> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let (began, first) = (Instant::now(), timestamp_cycles());
        let_run(COUNTED_FOR);
        let (took, last) = (began.elapsed(), timestamp_cycles());
        u64::try_from(u128::from(last - first) * 1_000_000 / took.as_nanos()).unwrap()
    })
}

/// A root file system with busybox, programs, modules and the script.
#[track_caller]
fn initrd(scratch: &Path, kernel: &Unpacked, parts: &Parts) -> PathBuf {
    let root = scratch.join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("init"), INIT).unwrap();
    std::fs::write(root.join("work.sh"), parts.script).unwrap();
    let files: Vec<&str> = parts.files.iter().map(|path| text(path)).collect();
    std::fs::write(root.join("files"), files.join("\n") + "\n").unwrap();
    std::fs::write(root.join("programs"), parts.programs.join("\n") + "\n").unwrap();
    let image = scratch.join("initrd");
    let make = "set -e; root=$1 kernel=$2 version=$3 image=$4; shift 4
        cd \"$root\"; mkdir -p bin dev proc sys tmp run modules lib lib64 m; chmod 755 init
        for program in busybox $(cat programs); do cp -L \"$(command -v $program)\" bin/; done
        for file in $(cat files); do
            mkdir -p \"./${file%/*}\"; strip -o \"./$file\" \"$file\" 2> /dev/null || cp -L \"$file\" \"./$file\"
        done
        for program in $(cat programs files); do ldd \"$(command -v $program)\"; done | grep -o '/[^ ]*' | sort -u |
            while read -r library; do cp -L \"$library\" lib/; cp -L \"$library\" lib64/; done
        number=100
        for module in \"$@\"; do modprobe -d \"$kernel\" -S \"$version\" --show-depends $(echo $module | tr : ' '); done |
            sed -n 's/^insmod //p' | grep -v pclmul | awk '!seen[$1]++' |
            while read -r module options; do
                [ -z \"$options\" ] || echo \"$options\" > modules/$number.ko.options
                case \"$module\" in *.xz) xz -dc ;; *) cat ;; esac < \"$module\" > modules/$number.ko; number=$((number + 1))
            done
        find . | cpio --quiet -o -H newc > \"$image\"";
    let mut shell = command("sh");
    shell.args(["-c", make, "sh", text(&root), text(&kernel.folder), &kernel.version, text(&image)]);
    run_for(PREPARATION_MAX, shell.args(parts.modules.split(' '))).expect("the machine's root");
    image
}
