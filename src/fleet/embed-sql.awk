# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes schema.c of the files sql/NNN-NAME.sql, which have to be given in their order.

BEGIN { print "/* Made by embed-sql.awk. */\n#include \"fleet/schema.h\"\n\nconst struct migration migrations[SCHEMA_VERSION] = {" }

FNR == 1 {
	if (NR > 1)
		print "\t},"
	n++
	name = FILENAME
	sub(/.*\//, "", name)
	if (name !~ /^[0-9][0-9][0-9]-[a-z-]+\.sql$/ || substr(name, 1, 3) + 0 != n) {
		print "embed-sql.awk: " FILENAME " is not number " n >"/dev/stderr"
		failed = 1
		exit 1
	}
	printf "\t{\n\t\t\"%s\",\n", substr(name, 1, length(name) - 4)
}

{
	gsub(/\\/, "\\\\&")
	gsub(/"/, "\\\"")
	gsub(/\t/, "\\t")
	printf "\t\t\"%s\\n\"\n", $0
}

END {
	if (!failed)
		printf "\t},\n};\n\n_Static_assert(SCHEMA_VERSION == %d, \"one step for each version\");\n", n
}
