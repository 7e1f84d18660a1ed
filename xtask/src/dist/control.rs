//! Metadata of a package: control files, changelog, copyright, file modes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::package::{Package, Release};
use crate::arch::Arch;
use crate::install::{copy, make_folder_of};
use crate::repo;

/// The maintainer of packages, unless `DEBFULLNAME` and `DEBEMAIL` are set: a placeholder.
const MAINTAINER: (&str, &str) = ("Sheaves maintainers", "maintainers@sheaves.invalid");
/// The examples, which go to the development package.
const EXAMPLES: &str = "crates/sheaves-capi/examples";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sheaves

Files: *
Copyright: The contributors to Sheaves
License: Expat or Apache-2.0

License: Expat
";

/// Writes everything except the installed files to `tree`. `objects` are those that the loader
/// loads.
pub(super) fn write(
    root: &Path,
    release: &Release,
    package: &Package,
    tree: &Path,
    objects: &[PathBuf],
) -> anyhow::Result<()> {
    write_documents(root, release, package, tree)?;
    let debian = tree.join("DEBIAN");
    std::fs::create_dir_all(&debian)?;
    if package.section == "libs" {
        let (name, version) = (package.name, &release.version);
        let number = name.trim_start_matches("libsheaves");
        let upstream = version.split('-').next().unwrap_or(version);
        let line = format!("libsheaves {number} {name} (>= {upstream})\n");
        std::fs::write(debian.join("shlibs"), line)?;
        std::fs::write(debian.join("triggers"), "activate-noawait ldconfig\n")?;
    }
    set_modes(tree)?;
    let sums = "find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums";
    repo::output_of(Command::new("sh").args(["-ec", sums]).current_dir(tree))?;
    let control = control(release, package, tree, objects)?;
    std::fs::write(debian.join("control"), control)?;
    repo::output_of(Command::new("chmod").arg("-R").arg("u=rwX,go=rX").arg(&debian))?;
    Ok(())
}

fn control(
    release: &Release,
    package: &Package,
    tree: &Path,
    objects: &[PathBuf],
) -> anyhow::Result<String> {
    let mut depends = vec![package.depends.replace("VERSION", &release.version)];
    if !objects.is_empty() {
        depends.push(libraries_of(release, objects)?);
    }
    depends.retain(|one| !one.is_empty());
    let kib = repo::output_of(Command::new("du").arg("-sk").arg(tree.join("usr")))?;
    let kib = kib.split_whitespace().next().unwrap_or("0").to_owned();
    let same = if package.section.starts_with("lib") { "Multi-Arch: same\n" } else { "" };
    Ok(format!(
        "Package: {}\nSource: sheaves\nVersion: {}\nArchitecture: {}\n{same}Maintainer: {}\n\
         Installed-Size: {kib}\nDepends: {}\nSection: {}\nPriority: optional\n\
         Description: {}\n{}",
        package.name,
        release.version,
        release.architecture,
        maintainer(),
        depends.join(", "),
        package.section,
        package.summary,
        folded(package.description),
    ))
}

/// Folds a description: its lines begin with a blank.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.len() + word.len() > 76) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

fn maintainer() -> String {
    let name = std::env::var("DEBFULLNAME").unwrap_or_else(|_| MAINTAINER.0.into());
    let address = std::env::var("DEBEMAIL").unwrap_or_else(|_| MAINTAINER.1.into());
    format!("{name} <{address}>")
}

/// The packages of the libraries that these objects are linked to, with the versions that they
/// need. For another architecture, the version of the C library is that of the cross compiler:
/// its package has no table of symbols.
fn libraries_of(release: &Release, objects: &[PathBuf]) -> anyhow::Result<String> {
    let folder = release.target.join("shlibdeps");
    let control = folder.join("debian/control");
    make_folder_of(&control)?;
    std::fs::write(&control, "Source: sheaves\n\nPackage: any\nArchitecture: any\n")?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").args(objects).current_dir(&folder);
    if let Some(arch) = release.other {
        let folder = libraries_for(arch)?;
        command.env("DEB_HOST_ARCH", arch.debian()).arg(format!("-l{}", folder.display()));
    }
    let printed = repo::output_of(&mut command)?;
    let depends = printed.trim().strip_prefix("shlibs:Depends=").context("dpkg-shlibdeps")?;
    Ok(release.other.map_or(depends.to_owned(), |arch| without_marks(depends, arch)))
}

/// The cross compiler's packages stand for others: `libgcc-s1-arm64-cross` for `libgcc-s1`. Its C
/// library names that other package itself, `libc6:arm64`.
fn without_marks(depends: &str, arch: Arch) -> String {
    let name = arch.debian();
    depends.replace(&format!("-{name}-cross"), "").replace(&format!(":{name}"), "")
}

/// The folder of another architecture's C library, which the compiler for it uses.
pub(super) fn libraries_for(arch: Arch) -> anyhow::Result<PathBuf> {
    let mut compiler = Command::new(arch.compiler());
    let path = repo::output_of(compiler.arg("-print-file-name=libc.so.6"))?;
    let path = Path::new(path.trim()).canonicalize().ok().filter(|path| path.is_absolute());
    let folder = path.as_deref().and_then(Path::parent).map(Path::to_owned);
    let name = arch.debian();
    folder.with_context(|| format!("{name}'s libc is missing: install libc6-dev-{name}-cross"))
}

/// Writes copyright and changelogs; for the development package also the examples.
fn write_documents(
    root: &Path,
    release: &Release,
    package: &Package,
    tree: &Path,
) -> anyhow::Result<()> {
    let folder = tree.join("usr/share/doc").join(package.name);
    std::fs::create_dir_all(&folder)?;
    let licence = std::fs::read_to_string(root.join("LICENSE-MIT"))?;
    let mut copyright = COPYRIGHT.to_owned();
    for line in licence.lines() {
        copyright = copyright + " " + if line.is_empty() { "." } else { line } + "\n";
    }
    copyright +=
        "\nLicense: Apache-2.0\n On Debian systems: /usr/share/common-licenses/Apache-2.0.\n";
    std::fs::write(folder.join("copyright"), copyright)?;
    let time = format!("@{}", release.time);
    let date = repo::output_of(Command::new("date").args(["-R", "-u", "-d", &time]))?;
    let entry = format!(
        "sheaves ({}) unstable; urgency=medium\n\n  * Packages of the upstream repository.\n\n \
         -- {}  {}",
        release.version,
        maintainer(),
        date,
    );
    std::fs::write(folder.join("changelog.Debian"), entry)?;
    std::fs::copy(root.join("CHANGELOG.md"), folder.join("changelog"))?;
    for name in ["changelog.Debian", "changelog"] {
        repo::output_of(Command::new("gzip").arg("-9n").arg(folder.join(name)))?;
    }
    if package.section == "libdevel" {
        for entry in std::fs::read_dir(root.join(EXAMPLES))? {
            let entry = entry?;
            copy(&entry.path(), &folder.join("examples").join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Sets the modes that Debian expects: only programs are executable.
fn set_modes(tree: &Path) -> anyhow::Result<()> {
    let chmod =
        "chmod -R u=rwX,go=rX . && find usr -type f ! -path 'usr/bin/*' -exec chmod 644 {} +";
    repo::output_of(Command::new("sh").args(["-ec", chmod]).current_dir(tree)).map(|_| ())
}

#[cfg(test)]
#[path = "../../tests/unit/dist_control.rs"]
mod tests;
