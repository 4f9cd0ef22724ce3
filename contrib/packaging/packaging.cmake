# SPDX-License-Identifier: LGPL-2.1-or-later
# `cpack -G DEB` and `cpack -G RPM`, of a tree configured with CMAKE_INSTALL_PREFIX=/usr, on the
# distribution that the package is for. What the scripts do at removal is described in docs/building.md.
set(RECLAIM_PACKAGE_RELEASE 1 CACHE STRING "Release of the packages of this version")

set(packaging ${CMAKE_CURRENT_LIST_DIR})

set(CPACK_PACKAGE_NAME reclaimd)
set(CPACK_PACKAGE_VENDOR "The reclaimd project")
set(CPACK_PACKAGE_CONTACT "The reclaimd project <reclaimd@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION
"reclaimd is the one place a host hands its deletions to. Names are gone at once;
the space comes back as fast as the devices allow without delaying other
programs. Jobs outlive crashes and reboots, and can be taken back.")
set(CPACK_STRIP_FILES ON)
# Some files have their place outside the prefix, as /etc.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_GENERATOR DEB)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${RECLAIM_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS util-linux)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "dbus, polkitd | policykit-1")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${packaging}/deb/postinst ${packaging}/deb/prerm ${packaging}/deb/postrm
        ${packaging}/deb/triggers)

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE ${RECLAIM_PACKAGE_RELEASE})
set(CPACK_RPM_PACKAGE_LICENSE LGPL-2.1-or-later)
set(CPACK_RPM_PACKAGE_REQUIRES_POST systemd)
set(CPACK_RPM_PACKAGE_REQUIRES_PREUN systemd)
set(CPACK_RPM_PACKAGE_REQUIRES_POSTUN "systemd, util-linux")
set(CPACK_RPM_PACKAGE_SUGGESTS "dbus, polkit")
set(CPACK_RPM_POST_INSTALL_SCRIPT_FILE ${packaging}/rpm/post)
set(CPACK_RPM_PRE_UNINSTALL_SCRIPT_FILE ${packaging}/rpm/preun)
set(CPACK_RPM_POST_UNINSTALL_SCRIPT_FILE ${packaging}/rpm/postun)
# Directories that belong to the packages of the distribution.
foreach(dir bash-completion bash-completion/completions dbus-1 dbus-1/interfaces dbus-1/system-services
        dbus-1/system.d doc fish polkit-1 polkit-1/actions
        zsh zsh/site-functions zsh/vendor-completions)
        list(APPEND distribution_dirs ${CMAKE_INSTALL_FULL_DATADIR}/${dir})
endforeach()
foreach(dir man1 man3 man5 man8)
        list(APPEND distribution_dirs ${CMAKE_INSTALL_FULL_MANDIR}/${dir})
endforeach()
foreach(dir lib lib/systemd lib/systemd/catalog lib/systemd/system lib/systemd/system-generators
        lib/systemd/system-preset)
        list(APPEND distribution_dirs ${CMAKE_INSTALL_PREFIX}/${dir})
endforeach()
list(APPEND distribution_dirs ${CMAKE_INSTALL_FULL_INCLUDEDIR} ${CMAKE_INSTALL_FULL_LIBDIR}
        ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
        ${distribution_dirs} ${CMAKE_INSTALL_FULL_SYSCONFDIR} ${CMAKE_INSTALL_FULL_MANDIR}
        ${CMAKE_INSTALL_FULL_LIBEXECDIR} ${CMAKE_INSTALL_FULL_SBINDIR})

if(EXISTS ${CMAKE_SOURCE_DIR}/conf/reclaimd.yaml)
        list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${packaging}/deb/conffiles)
        set(CPACK_RPM_USER_FILELIST
                "%config(noreplace) ${CMAKE_INSTALL_FULL_SYSCONFDIR}/reclaimd/reclaimd.yaml")
endif()

include(CPack)
