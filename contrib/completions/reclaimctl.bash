# SPDX-License-Identifier: LGPL-2.1-or-later
# bash completion for reclaimctl
_reclaimctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local verb='' word
	local common='--json --json=short --json=pretty --quiet --no-pager --help --version'
	local devices='--interval='
	local policy='--configuration-directory='
	local run='--latency= --backend= --files-from= --null --progress= --dry-run --verbose --trace='

	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in run | plan | devices | check-config | policy)
			verb=$word
			break
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
	--backend) mapfile -t COMPREPLY < <(compgen -W 'auto uring threads' -- "$cur") && return ;;
	--progress) mapfile -t COMPREPLY < <(compgen -W 'auto on off' -- "$cur") && return ;;
	--interval) mapfile -t COMPREPLY < <(compgen -W '0 1s 10s' -- "$cur") && return ;;
	--json) mapfile -t COMPREPLY < <(compgen -W 'short pretty off' -- "$cur") && return ;;
	--configuration-directory) mapfile -t COMPREPLY < <(compgen -d -- "$cur") && return ;;
	policy) mapfile -t COMPREPLY < <(compgen -W 'list plan' -- "$cur") && return ;;
	--files-from | --trace) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
	esac
	if [ -z "$verb" ]; then
		mapfile -t COMPREPLY < <(compgen -W "run plan devices check-config policy --help --version" -- "$cur")
	elif [[ $cur == -* ]]; then
		[ "$verb" = run ] || run=''
		[ "$verb" = devices ] || devices=''
		[ "$verb" = policy ] || policy=''
		mapfile -t COMPREPLY < <(compgen -W "$run $devices $policy $common" -- "$cur")
		[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace
	else
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -F _reclaimctl reclaimctl
