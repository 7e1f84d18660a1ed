//! `cargo xtask dist --check`: the packages on a clean system made by debootstrap, in a folder that
//! is removed on success. It needs root and a mirror: the one that this machine's apt uses.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::consumers::{PROJECT, has};
use crate::install::copy;
use crate::repo;

/// The script that runs there. It ends with a line `clean: ok`.
const SCRIPT: &str = r#"
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin
apt_install() { apt-get install -qq -y --no-install-recommends "$@" >/dev/null; }

echo "clean: the command alone"
apt_install /packages/sheaves_*.deb
sheaves --version
sheaves doctor
sheaves run -- true
sheaves run --verbose -- ls / >/dev/null
test -f /usr/share/man/man1/sheaves.1.gz

echo "clean: the library, and a project that uses it"
apt_install /packages/libsheaves0_*.deb /packages/libsheaves-dev_*.deb g++ libc6-dev make pkg-config
ldconfig -p | grep -F 'libsheaves.so.0 '
make --silent -C /consumer BUILD=/consumer run

echo "clean: nothing is left"
apt-get purge -qq -y sheaves libsheaves0 libsheaves-dev >/dev/null
if find /usr /etc /var/lib -xdev -name '*sheaves*' | grep .; then exit 1; fi
echo "clean: ok"
"#;

/// True when this machine permits it. Root in a container may not be allowed to mount anything.
fn can_check() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"]);
    has("debootstrap") && repo::output_of(&mut unshare).is_ok()
}

/// Installs `packages` on a clean system, uses them, and removes them.
pub(super) fn check(root: &Path, target: &Path, packages: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(can_check(), "--check needs root and debootstrap");
    let system = target.join("system");
    let (mirror, release) = mirror();
    println!("dist: installing {release} from {mirror}");
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &release]).arg(&system).arg(&mirror);
    repo::output_of(&mut debootstrap)?;
    for package in packages {
        let name = package.file_name().context("a package is a file")?;
        copy(package, &system.join("packages").join(name))?;
    }
    for entry in std::fs::read_dir(root.join(PROJECT))? {
        let entry = entry?;
        copy(&entry.path(), &system.join("consumer").join(entry.file_name()))?;
    }
    // The mounts disappear with the last process of the namespace, however it ends.
    let enter = "mount -t proc proc \"$1/proc\" && mount -t sysfs -o ro sysfs \"$1/sys\" &&
        exec chroot \"$1\" /bin/sh -c \"$2\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, "sh"]);
    unshare.arg(&system).arg(SCRIPT).env_remove("LD_PRELOAD").stdin(Stdio::null());
    let printed = repo::output_of(&mut unshare)?;
    print!("{printed}");
    ensure!(printed.ends_with("clean: ok\n"), "the packages do not work on a clean system");
    std::fs::remove_dir_all(&system).with_context(|| system.display().to_string())?;
    println!("dist: the packages work on a clean system");
    Ok(())
}

/// Mirror and release of this machine's apt.
fn mirror() -> (String, String) {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(CODENAME)"]);
    let targets = repo::output_of(apt.arg("Identifier: Packages")).unwrap_or_default();
    let of_debian = targets.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (origin, mirror, release) = (words.next()?, words.next()?, words.next()?);
        let is_main = origin == "Debian" && !release.contains('-');
        is_main.then(|| (mirror.to_owned(), release.to_owned()))
    });
    of_debian.unwrap_or_else(|| ("http://deb.debian.org/debian".into(), "bookworm".into()))
}
