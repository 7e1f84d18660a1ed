"""Recipe for Conan 2: `conan create .` builds the library from a checkout, see docs/install.md."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import cross_building
from conan.tools.files import copy, load, rmdir


class Sheaves(ConanFile):
    name = "sheaves"
    description = "Per-CPU memory and RCU"
    license = "MIT OR Apache-2.0"
    package_type = "shared-library"
    # The API is C's, and the headers for C++ have all their code.
    settings = "os", "arch"
    # cargo wants all crates of the workspace.
    exports_sources = "Cargo.*", "LICENSE-*", "crates/*", "xtask/*"

    def set_version(self):
        manifest = load(self, os.path.join(self.recipe_folder, "Cargo.toml"))
        self.version = re.search(r'^version = "(.+)"', manifest, re.MULTILINE)[1]

    def validate(self):
        if self.settings.os != "Linux" or cross_building(self):
            raise ConanInvalidConfiguration("it is for Linux, and built on the same architecture")

    def package(self):
        self.run(
            "cargo cinstall --release --locked -p sheaves-capi"
            f' --prefix=/ --libdir=lib --destdir="{self.package_folder}"'
        )
        copy(self, "LICENSE-*", self.build_folder, os.path.join(self.package_folder, "licenses"))
        # Conan writes such files itself.
        for folder in "lib", "share":
            rmdir(self, os.path.join(self.package_folder, folder, "pkgconfig"))

    def package_info(self):
        self.cpp_info.libs = ["sheaves"]
        # CMake finds the file that the library installs, which has all targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/sheaves"]
