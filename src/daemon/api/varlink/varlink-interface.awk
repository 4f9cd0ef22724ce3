# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the description of the interface for sd-varlink, in C, of its text: conf/org.reclaimd.Reclaim.varlink.

function quoted(text) {
	gsub(/\\/, "\\\\", text)
	gsub(/"/, "\\\"", text)
	return "\"" text "\""
}

# Of a name: the lines before it.
function take_note() {
	taken = note
	note = ""
	return taken
}

function field(name, type,    flags, macro) {
	macro = !direction ? "FIELD" : direction
	if (type == "") {
		fields = fields ",\n\tSD_VARLINK_DEFINE_ENUM_VALUE(" name ")"
		kind = "ENUM_TYPE"
		return
	}
	flags = "0"
	if (sub(/^\?/, "", type))
		flags = flags " | SD_VARLINK_NULLABLE"
	if (sub(/^\[\]/, "", type))
		flags = flags " | SD_VARLINK_ARRAY"
	if (sub(/^\[string\]/, "", type))
		flags = flags " | SD_VARLINK_MAP"
	if (type ~ /^(bool|int|float|string|object)$/)
		type = "SD_VARLINK_" toupper(type)
	else
		macro = macro "_BY_TYPE"
	fields = fields ",\n\tSD_VARLINK_DEFINE_" macro "(" name ", " type ", " flags ")"
}

function symbol_end() {
	if (more)
		printf "static SD_VARLINK_DEFINE_METHOD_FULL(%s, SD_VARLINK_%s_MORE%s);\n\n", symbol, more, fields
	else
		printf "static SD_VARLINK_DEFINE_%s(%s%s);\n\n", kind, symbol, fields
	more = ""
}

BEGIN { print "/* Made by varlink-interface.awk. */\n#include \"daemon/api/varlink/varlink-state.h\"\n" }

/^# SPDX/ { next }
/^# \[Requires 'more' flag\]$/ { more = "REQUIRES"; next }
/^# \[Supports 'more' flag\]$/ { more = "SUPPORTS"; next }
/^#/ { note = note (note == "" ? "" : " \"\\n\" ") quoted(substr($0, 3)); next }
/^\t#/ { fields = fields ",\n\tSD_VARLINK_FIELD_COMMENT(" quoted(substr($0, 4)) ")"; next }
/^\t/ { sub(/,$/, ""); sub(/:$/, "", $1); field($1, $2); next }
/^interface / { all = "\tSD_VARLINK_INTERFACE_COMMENT(" take_note() ")"; name = $2 }
/^(type|method|error) / {
	symbol = substr($2, 1, index($2, "(") - 1)
	kind = $1 == "type" ? "STRUCT_TYPE" : toupper($1)
	direction = $1 == "method" ? "INPUT" : ""
	fields = ""
	if (note != "")
		all = all ",\n\tSD_VARLINK_SYMBOL_COMMENT(" take_note() ")"
	all = all ",\n\t&vl_" $1 "_" symbol
}
/\) -> \($/ { direction = "OUTPUT"; next }
/\)$/ { symbol_end() }
END { printf "SD_VARLINK_DEFINE_INTERFACE(reclaim, \"%s\",\n%s);\n", name, all }
