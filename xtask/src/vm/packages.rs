//! Debian's packages, of any architecture, by an apt whose state is in the cache folder: the
//! system's own sources, keys and list of packages stay as they are, and root is not needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::options::Pages;
use crate::arch::Arch;
use crate::repo;

/// The releases that kernels may come from. Programs come from [`PROGRAMS_FROM`].
const RELEASES: [&str; 5] = ["bullseye", "bookworm", "bookworm-backports", "trixie", "forky"];
/// The release whose C library is not newer than that of the machine that builds.
const PROGRAMS_FROM: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";

pub(super) struct Apt {
    folder: PathBuf,
    arch: Arch,
}

impl Apt {
    /// Fetches the lists of packages unless that was done less than a week ago.
    pub(super) fn new(cache: &Path, arch: Arch) -> anyhow::Result<Apt> {
        let apt = Apt { folder: cache.join(arch.debian()), arch };
        for folder in ["state/lists/partial", "cache", "unpacked"] {
            let folder = apt.folder.join(folder);
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let source = |release| format!("deb [signed-by={keys}] {MIRROR} {release} main\n");
        fs::write(apt.folder.join("sources.list"), RELEASES.map(source).concat())?;
        fs::write(apt.folder.join("status"), "")?;
        let stamp = apt.folder.join("fetched");
        let is_fresh = fs::metadata(&stamp)
            .and_then(|stamp| stamp.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() < 7 * 86_400));
        if !is_fresh {
            println!("vm: fetching the lists of packages for {}", arch.debian());
            repo::output_of(apt.command("apt-get").arg("update"))?;
            fs::write(stamp, "")?;
        }
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| self.folder.join(name).display().to_string();
        let settings = [
            format!("APT::Architecture={}", self.arch.debian()),
            format!("APT::Architectures={}", self.arch.debian()),
            format!("APT::Default-Release={PROGRAMS_FROM}"),
            "APT::Install-Recommends=false".into(),
            "APT::Sandbox::User=".into(),
            "Debug::NoLocking=true".into(),
            format!("Dir::State={}", at("state")),
            format!("Dir::State::lists={}", at("state/lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".into(),
        ];
        for setting in settings {
            command.arg("-o").arg(setting);
        }
        command
    }

    /// The package of the newest kernel with this beginning of a version.
    pub(super) fn kernel(&self, version: &str, pages: Pages) -> anyhow::Result<PathBuf> {
        let flavor = match (self.arch, pages) {
            (Arch::x86_64, _) => "-cloud-amd64",
            (Arch::aarch64, Pages::Of4KiB) => "-cloud-arm64",
            (Arch::aarch64, Pages::Of16KiB) => "-arm64-16k",
            (Arch::aarch64, Pages::Of64KiB) => bail!(
                "Debian has no kernel with 64 KiB pages: build one (see CONTRIBUTING.md), and \
                 name it by --kernel FILE"
            ),
        };
        let begin = format!("linux-image-{version}");
        let names = repo::output_of(self.command("apt-cache").args(["pkgnames", &begin]))?;
        let is_version = |name: &&str| {
            name[begin.len()..].starts_with(['.', '-', '+']) && name.ends_with(flavor)
        };
        let newest = names.lines().filter(is_version).max_by_key(|name| numbers(name));
        let newest = newest.with_context(|| format!("Debian has no package {begin}...{flavor}"))?;
        self.fetch(&["download"], &[newest])?.pop().context("apt gave no package")
    }

    /// The kernel in a package.
    pub(super) fn image_of(&self, package: &Path) -> anyhow::Result<PathBuf> {
        let name = package.file_stem().context("a package without a name")?;
        let folder = self.folder.join("unpacked").join(name);
        if !folder.exists() {
            unpack(package, &folder)?;
        }
        let boot = folder.join("boot");
        let mut files = fs::read_dir(&boot).with_context(|| boot.display().to_string())?;
        let is_image = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
        };
        let found = files.find_map(|entry| entry.ok().map(|entry| entry.path()).filter(is_image));
        found.with_context(|| format!("{} has no kernel", package.display()))
    }

    /// Unpacks packages, and all that they depend on, below `tree`.
    pub(super) fn unpack(&self, names: &[impl AsRef<str>], tree: &Path) -> anyhow::Result<()> {
        let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
        if names.is_empty() {
            return Ok(());
        }
        let install = ["install", "--download-only", "--yes"];
        for package in self.fetch(&install, &names)? {
            unpack(&package, tree)?;
        }
        Ok(())
    }

    /// The files that apt fetches for some packages, which are kept in a folder of their own.
    fn fetch(&self, action: &[&str], names: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let folder = self.folder.join("archives").join(names.join("+"));
        let done = folder.join("done");
        if !done.exists() {
            println!("vm: fetching {}", names.join(", "));
            let partial = folder.join("partial");
            fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
            let mut apt = self.command("apt-get");
            apt.arg("-o").arg(format!("Dir::Cache::archives={}", folder.display()));
            repo::output_of(apt.args(action).args(names).current_dir(&folder))?;
            fs::write(&done, "")?;
        }
        let entries = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
        Ok(entries.iter().map(fs::DirEntry::path).filter(is_package).collect())
    }
}

/// Unpacks a package below a folder, without running anything of it.
fn unpack(package: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    repo::output_of(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder))?;
    Ok(())
}

/// The numbers in a name, in their order, by which versions are compared.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}
