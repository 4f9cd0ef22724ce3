/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slowdisk-options.h"
#include "slowdisk-store.h"

static const struct options defaults_hdd = {
	.model = {
		.kind = MODEL_HDD,
		.size_bytes = UINT64_C(8) << 30,
		.n_channels = 1,
		.seek_msec = 8,
		.mbytes_per_sec = 180,
	},
	.depth = 32,
};

/* A cheap SATA one, as sold with small servers. */
static const struct options defaults_ssd = {
	.model = {
		.kind = MODEL_SSD,
		.size_bytes = UINT64_C(8) << 30,
		.n_channels = 8,
		.mbytes_per_sec = 500,
		.read_usec = 150,
		.write_usec = 60,
		.flush_msec = 0.5,
		.trim_msec_per_mib = 0.5,
	},
	.depth = 32,
};

static void usage(FILE *f)
{
	fputs("usage: slowdisk [OPTION...] MOUNTPOINT\n"
	      "  --model=hdd|ssd        has to come first (hdd)\n"
	      "  --size=BYTES[K|M|G|T]  of the disk (8G)\n"
	      "  --mbps=MB              transfer per second (hdd 180, ssd 500)\n"
	      "  --queue-depth=N        requests the disk chooses from (32)\n"
	      "  --flush-ms=MS          a flush (hdd 0, ssd 0.5)\n"
	      "  --trim-ms-per-mib=MS   a trim (hdd 0, ssd 0.5)\n"
	      "  --seek-ms=MS           hdd: a random seek (8)\n"
	      "  --span=BYTES[K|M|G|T]  hdd: over which a random seek takes that long (all)\n"
	      "  --rotation-ms=MS       hdd: a rotation, of which a seek waits half (0)\n"
	      "  --channels=N           ssd: how many work in parallel (8)\n"
	      "  --read-us=US           ssd: a stripe of 64 KiB or less (150)\n"
	      "  --write-us=US          ssd: a stripe of 64 KiB or less (60)\n"
	      "  --start-off            without delays until SIGUSR2; SIGUSR1 turns them off\n"
	      "  --die-with-parent      end with the process that started it\n",
	      f);
}

enum {
	OPTION_MODEL = 256,
	OPTION_SIZE,
	OPTION_SPAN,
	OPTION_MBPS,
	OPTION_DEPTH,
	OPTION_FLUSH,
	OPTION_TRIM,
	OPTION_SEEK,
	OPTION_ROTATION,
	OPTION_CHANNELS,
	OPTION_READ,
	OPTION_WRITE,
	OPTION_START_OFF,
	OPTION_DIE,
	OPTION_HELP,
};

static const struct option long_options[] = {
	{ "model", required_argument, NULL, OPTION_MODEL },
	{ "size", required_argument, NULL, OPTION_SIZE },
	{ "span", required_argument, NULL, OPTION_SPAN },
	{ "mbps", required_argument, NULL, OPTION_MBPS },
	{ "queue-depth", required_argument, NULL, OPTION_DEPTH },
	{ "flush-ms", required_argument, NULL, OPTION_FLUSH },
	{ "trim-ms-per-mib", required_argument, NULL, OPTION_TRIM },
	{ "seek-ms", required_argument, NULL, OPTION_SEEK },
	{ "rotation-ms", required_argument, NULL, OPTION_ROTATION },
	{ "channels", required_argument, NULL, OPTION_CHANNELS },
	{ "read-us", required_argument, NULL, OPTION_READ },
	{ "write-us", required_argument, NULL, OPTION_WRITE },
	{ "start-off", no_argument, NULL, OPTION_START_OFF },
	{ "die-with-parent", no_argument, NULL, OPTION_DIE },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

static int parse_number(const char *text, const char *suffixes, double *ret)
{
	static const char units[] = "KMGT";
	char *end;
	double value = strtod(text, &end);

	if (end == text || !(value >= 0))
		return -EINVAL;
	if (*end && strchr(suffixes, *end)) {
		for (const char *unit = strchr(units, *end); unit >= units; unit--)
			value *= 1024;
		end++;
	}
	if (*end)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int parse_model(const char *text, struct options *options)
{
	if (strcmp(text, "hdd") == 0)
		*options = defaults_hdd;
	else if (strcmp(text, "ssd") == 0)
		*options = defaults_ssd;
	else
		return -EINVAL;
	return 0;
}

/* Options that are numbers; whole ones go through value. */
static int parse_numeric(int option, const char *text, struct options *options)
{
	struct model_config *model = &options->model;
	double value;
	int r;

	r = parse_number(text, option == OPTION_SIZE || option == OPTION_SPAN ? "KMGT" : "",
			 &value);
	if (r < 0)
		return r;
	switch (option) {
	case OPTION_SIZE:
		model->size_bytes = (uint64_t)value / STORE_PAGE_BYTES * STORE_PAGE_BYTES;
		break;
	case OPTION_SPAN:
		model->span_bytes = (uint64_t)value;
		break;
	case OPTION_MBPS:
		model->mbytes_per_sec = value;
		break;
	case OPTION_DEPTH:
		options->depth = value < 1 ? 1 : (unsigned)value;
		break;
	case OPTION_FLUSH:
		model->flush_msec = value;
		break;
	case OPTION_TRIM:
		model->trim_msec_per_mib = value;
		break;
	case OPTION_SEEK:
		model->seek_msec = value;
		break;
	case OPTION_ROTATION:
		model->rotation_msec = value;
		break;
	case OPTION_CHANNELS:
		model->n_channels = (unsigned)value;
		break;
	case OPTION_READ:
		model->read_usec = value;
		break;
	case OPTION_WRITE:
		model->write_usec = value;
		break;
	}
	return 0;
}

static int parse_option(int option, const char *text, struct options *options)
{
	switch (option) {
	case OPTION_MODEL:
		return parse_model(text, options);
	case OPTION_START_OFF:
		options->start_off = true;
		return 0;
	case OPTION_DIE:
		options->die_with_parent = true;
		return 0;
	case '?':
		return -EINVAL;
	default:
		return parse_numeric(option, text, options);
	}
}

static int parse_all(int argc, char **argv, struct options *options)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		if (option == OPTION_HELP)
			return OPTIONS_HELP;
		if (parse_option(option, optarg, options) < 0) {
			if (optarg)
				fprintf(stderr, "slowdisk: %s: not a valid value\n", optarg);
			return -EINVAL;
		}
	}
	if (optind + 1 != argc)
		return -EINVAL;
	options->mountpoint = argv[optind];
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret)
{
	struct options options = defaults_hdd;
	int r;

	r = parse_all(argc, argv, &options);
	if (r != 0) {
		usage(r < 0 ? stderr : stdout);
		return r;
	}
	*ret = options;
	return 0;
}
