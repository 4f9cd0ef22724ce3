# SPDX-License-Identifier: LGPL-2.1-or-later
# bash completion for reclaimctl

# The jobs that a verb could be used on: finished ones only where they are of use.
_reclaimctl_jobs() {
	local all=''

	case $1 in
	show | wait) all=--all ;;
	retry) all=--state=partial,failed ;;
	esac
	reclaimctl list ${all:+"$all"} --json=short "${@:2}" 2>/dev/null | grep -o '"id":[0-9]*' | cut -d: -f2
}

_reclaimctl_policies() {
	reclaimctl policy list --json=short "$@" 2>/dev/null | grep -o '"name":"[^"]*"' | cut -d'"' -f4
}

_reclaimctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local verb='' verb_at=0 word i
	local verbs='submit list show wait cancel pause resume restore retry set spools status run trim plan pin unpin devices check-config policy fleet metrics top help'
	local json='--json --json=short --json=pretty'
	local common='--host= --quiet --no-pager --log-level= --help --version'
	local daemon='--runtime-directory=' machine='--machine= --runtime-directory=' files='--files-from= --null --dry-run'
	local states='accepted held queued running paused done partial failed cancelled restored'
	local options='' runtime=() configuration=()

	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [ "$word" = --runtime-directory ] && [ "${COMP_WORDS[i + 1]}" = = ]; then
			runtime=("--runtime-directory=${COMP_WORDS[i + 2]}")
		fi
		if [ "$word" = --configuration-directory ] && [ "${COMP_WORDS[i + 1]}" = = ]; then
			configuration=("--configuration-directory=${COMP_WORDS[i + 2]}")
		fi
		case " $verbs " in *" $word "*)
			[ -n "$verb" ] || verb_at=$i
			verb=${verb:-$word}
			;;
		esac
	done
	# "--option=value" arrives in three words.
	if [ "$cur" = = ]; then
		cur=''
	elif [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case $prev in
	--latency) mapfile -t COMPREPLY < <(compgen -W 'auto off 5ms 20ms' -- "$cur") && return ;;
	--strategy) mapfile -t COMPREPLY < <(compgen -W 'auto moosefs-snapshot moosefs-snapshot:50ms' -- "$cur") && return ;;
	--backend) mapfile -t COMPREPLY < <(compgen -W 'auto uring threads' -- "$cur") && return ;;
	--progress) mapfile -t COMPREPLY < <(compgen -W 'auto on off' -- "$cur") && return ;;
	--interval) mapfile -t COMPREPLY < <(compgen -W '0 1s 10s' -- "$cur") && return ;;
	--priority) mapfile -t COMPREPLY < <(compgen -W 'low normal high' -- "$cur") && return ;;
	--undo) mapfile -t COMPREPLY < <(compgen -W '0 1h 1d' -- "$cur") && return ;;
	--by) mapfile -t COMPREPLY < <(compgen -W '1h 8h none' -- "$cur") && return ;;
	--wait)
		[ "$verb" = submit ] && options=free:
		mapfile -t COMPREPLY < <(compgen -W "done $options" -- "$cur") && return
		;;
	--until) mapfile -t COMPREPLY < <(compgen -W '7d 30d' -- "$cur") && return ;;
	--min) mapfile -t COMPREPLY < <(compgen -W '1M 16M' -- "$cur") && return ;;
	--free) mapfile -t COMPREPLY < <(compgen -W '10G 10%' -- "$cur") && return ;;
	--json) mapfile -t COMPREPLY < <(compgen -W 'short pretty off' -- "$cur") && return ;;
	--state) mapfile -t COMPREPLY < <(compgen -W "$states" -- "$cur") && return ;;
	--user)
		# Of other verbs it takes no argument.
		[ "$verb" != list ] || { mapfile -t COMPREPLY < <(compgen -u -- "$cur") && return; }
		;;
	--log-level) mapfile -t COMPREPLY < <(compgen -W 'debug info' -- "$cur") && return ;;
	--machine | -M)
		mapfile -t COMPREPLY < <(compgen -W "$(machinectl list --no-legend --no-pager 2>/dev/null | cut -d' ' -f1)" -- "$cur")
		return
		;;
	--host | -H) mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur") && return ;;
	--format) mapfile -t COMPREPLY < <(compgen -W 'openmetrics prometheus' -- "$cur") && return ;;
	--files-from | --trace | --to | --output)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--runtime-directory | --configuration-directory | --state-directory)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	esac
	case $verb in
	run) options="--latency= --no-settle --backend= --progress= --verbose --trace= --strategy= --configuration-directory= $files" ;;
	trim) options="--all --min= --latency= --progress= --verbose --dry-run --configured --configuration-directory= --state-directory=" ;;
	plan) options="--configuration-directory=" ;;
	pin) options='--until= --list' ;;
	check-config) options=--user ;;
	submit) options="--undo= --by= --priority= --wait --wait= $files $daemon" ;;
	wait) options="--free= --no-settle $machine" ;;
	list) options="--all --state= --user= --lines= --fleet --database= --configuration-directory= --no-legend $machine" ;;
	pause | resume) options="--all --no-ask-password $machine" ;;
	cancel) options="--no-ask-password $machine" ;;
	restore) options="--to= --no-ask-password $daemon" ;;
	devices) options="--interval= $daemon" ;;
	top) options="--interval= $machine" json='' ;;
	spools) options="--no-legend $machine" ;;
	show) options="--all $machine" ;;
	status) options=$machine ;;
	retry) options=$daemon ;;
	set) options="--priority= --by= --no-ask-password $machine" ;;
	metrics) options="--output= --format= $machine" json='' ;;
	help) json='' ;;
	fleet) options='--database= --configuration-directory=' ;;
	policy) options="--user --latency= --configuration-directory= --state-directory= --dry-run --force --wait --clock-is-right $daemon" ;;
	esac
	if [ -z "$verb" ] && [[ $cur != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs --help --version" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options $json $common" -- "$cur")
		[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace
	else
		# wait --free= takes a path.
		if [ "$verb" = wait ] && [[ " ${COMP_WORDS[*]} " == *' --free '* ]]; then
			verb=submit
		fi
		case $verb in
		help) mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur") ;;
		fleet) ((COMP_CWORD > verb_at + 1)) || mapfile -t COMPREPLY < <(compgen -W 'hosts units init' -- "$cur") ;;
		policy)
			if ((COMP_CWORD == verb_at + 1)); then
				mapfile -t COMPREPLY < <(compgen -W 'list plan run' -- "$cur")
			else
				mapfile -t COMPREPLY < <(compgen -W "$(_reclaimctl_policies "${configuration[@]}")" -- "$cur")
			fi
			;;
		show | cancel | pause | resume | restore | retry | set | wait)
			mapfile -t COMPREPLY < <(compgen -W "$(_reclaimctl_jobs "$verb" "${runtime[@]}")" -- "$cur")
			;;
		submit | run | trim | plan | pin | unpin | devices | check-config)
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			;;
		esac
	fi
}
complete -F _reclaimctl reclaimctl
