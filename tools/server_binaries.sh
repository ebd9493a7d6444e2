# shellcheck shell=sh
# What get_mariadb.sh and get_mysql.sh share; they source it in the project's folder. They have the
# functions works FOLDER (whether the server in it runs) and unpack FOLDER (fills it).

# Makes .cache/$1 unless it is there and works, and prints its path. One at a time; one that was cut
# short leaves only .cache/$1.new.
ready_in_cache() {
    dest=.cache/$1
    mkdir -p .cache
    if ! works "$dest"; then
        exec 9>"$dest.lock" # held until the last process of this script ends, however that ends
        flock -n 9 || { echo "Waiting for another set-up of $1 ..." >&2; flock 9; }
        if ! works "$dest"; then
            rm -rf "$dest.new"
            unpack "$dest.new" || { rm -rf "$dest.new"; return 1; }
            works "$dest.new" || { echo "The $1 that was fetched does not run here." >&2; return 1; }
            rm -rf "$dest" && mv "$dest.new" "$dest" || return 1
        fi
        exec 9>&-
    fi
    echo "$(pwd)/$dest"
}

# write_starter FOLDER BINARY: writes FOLDER/server, which runs the binary with its own
# loader and libraries: those of the machine are older or newer.
write_starter() {
    root=$1 binary=$2
    loader=$(cd "$root" && find lib/*-linux-gnu usr/lib/*-linux-gnu -name 'ld-linux*.so.*' -type f 2>/dev/null | head -n 1)
    [ -n "$loader" ] || { echo "There is no loader among the packages." >&2; return 1; }
    libraries=
    for folder in lib/*-linux-gnu usr/lib/*-linux-gnu usr/lib/mysql/private; do
        # shellcheck disable=SC2231 # the pattern is meant
        for found in "$root"/$folder; do
            [ ! -d "$found" ] || libraries="$libraries:\$here/${found#"$root"/}"
        done
    done
    # It moves with its folder; the servers leave the folder they were started in, so the paths are absolute.
    cat >"$root/server" <<STARTER
#!/bin/sh
here=\$(cd "\$(dirname "\$0")" && pwd)
exec "\$here/$loader" --library-path "${libraries#:}" "\$here/$binary" "\$@"
STARTER
    chmod +x "$root/server"
}
