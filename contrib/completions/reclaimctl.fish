# SPDX-License-Identifier: LGPL-2.1-or-later
# fish completion for reclaimctl

function __reclaimctl_verb_is
    set -l words (commandline -opc)
    for word in $words[2..]
        string match -q -- '-*' $word; and continue
        contains -- $word $argv
        return
    end
    return 1
end

function __reclaimctl_no_verb
    set -l words (commandline -opc)
    for word in $words[2..]
        string match -q -- '-*' $word; or return 1
    end
end

# The option of the command line that names a directory, to be handed on.
function __reclaimctl_directory
    string match -r -- "^--$argv[1]=.*" (commandline -opc)
end

# The jobs that a verb could be used on: finished ones only where they are of use.
function __reclaimctl_jobs
    set -l all
    __reclaimctl_verb_is show wait; and set all --all
    __reclaimctl_verb_is retry; and set all --state=partial,failed
    reclaimctl list $all --json=short (__reclaimctl_directory runtime-directory) 2>/dev/null |
        string match -ar '"id":\d+' | string replace '"id":' ''
end

function __reclaimctl_policies
    reclaimctl policy list --json=short (__reclaimctl_directory configuration-directory) 2>/dev/null |
        string match -ar '"name":"[^"]*"' | string replace -r '"name":"(.*)"' '$1'
end

function __reclaimctl_policy_needs_what
    __reclaimctl_verb_is policy; and not string match -qr '^(list|plan|run)$' -- (commandline -opc)[2..]
end

function __reclaimctl_fleet_needs_what
    __reclaimctl_verb_is fleet; and not string match -qr '^(hosts|units|init)$' -- (commandline -opc)[2..]
end

function __reclaimctl_help_needs_verb
    __reclaimctl_verb_is help; and test (commandline -opc)[-1] = help
end

complete -c reclaimctl -f

for pair in \
        'submit|have the daemon delete it; gone at once' \
        'list|the jobs of the daemon' \
        'show|all that is known of a job' \
        'wait|until jobs have finished, or enough is free' \
        'cancel|put back what has not begun; stop what has' \
        'pause|stop deleting until it is resumed' \
        'resume|go on deleting' \
        'restore|move it back, while it is held or queued' \
        'retry|submit again what it could not delete' \
        'set|another priority, or time to be done by' \
        'spools|directories whose content is deleted' \
        'status|the daemon, and what it does now' \
        'top|the same on the whole screen, with keys to act' \
        'metrics|the counters of the daemon, for monitoring' \
        'run|delete, in this process, without a daemon' \
        'trim|tell devices what is free, in small steps' \
        'plan|what would be deleted, how, and why' \
        'pin|keep it from being deleted' \
        'unpin|let it be deleted again' \
        'devices|which devices it is on, and their latency' \
        'check-config|what is wrong with the configuration' \
        'fleet|hosts that delete together' \
        'policy|retention policies, and what they would delete' \
        'help|what a verb does, with examples'
    set -l parts (string split '|' $pair)
    complete -c reclaimctl -n '__reclaimctl_no_verb; or __reclaimctl_help_needs_verb' -a $parts[1] -d $parts[2]
end

# Options: of which verbs (empty: all), then as complete takes them.
function __reclaimctl_option
    if test -n "$argv[1]"
        complete -c reclaimctl -n "__reclaimctl_verb_is $argv[1]" $argv[2..]
    else
        complete -c reclaimctl $argv[2..]
    end
end

set -l daemon 'submit list show wait cancel pause resume restore retry set spools status top metrics devices policy'
set -l json 'submit list show wait cancel pause resume restore retry set spools status run trim plan pin unpin devices check-config policy fleet'
__reclaimctl_option $daemon -l runtime-directory -xa '(__fish_complete_directories)' -d 'where the socket of the daemon is'
__reclaimctl_option 'list show wait cancel pause resume set spools status top metrics' -s M -l machine -xa "(machinectl list --no-legend --no-pager 2>/dev/null | string replace -r ' .*' '')" -d 'the daemon of this container'
__reclaimctl_option $json -l json -fa 'short pretty off' -d 'the result as JSON'
__reclaimctl_option '' -s H -l host -xa '(__fish_print_hostnames)' -d 'on that machine, over ssh'
__reclaimctl_option '' -s q -l quiet -d 'nothing but errors'
__reclaimctl_option '' -l no-pager -d 'long results straight to the terminal'
__reclaimctl_option '' -l log-level -xa 'debug info' -d 'debug: tell decisions, too'
__reclaimctl_option '' -s h -l help -d 'show a summary of verbs and options'
__reclaimctl_option '' -l version -d 'show the version'

__reclaimctl_option 'cancel pause resume restore set' -l no-ask-password -d 'never ask for a password'

__reclaimctl_option 'run submit' -l files-from -rF -d 'the names listed in a file'
__reclaimctl_option 'run submit' -s 0 -l null -d 'names in the file end with NUL'
__reclaimctl_option 'run submit trim policy' -l dry-run -d 'check, change nothing'

__reclaimctl_option 'run trim policy' -l latency -xa 'auto off 5ms 20ms' -d 'what a request of another program may take'
__reclaimctl_option run -l no-settle -d 'leave what is to be written back to the kernel'
__reclaimctl_option run -l backend -xa 'auto uring threads' -d 'how names are unlinked'
__reclaimctl_option 'run trim' -l progress -xa 'auto on off' -d 'a bar on a terminal'
__reclaimctl_option 'run trim' -s v -l verbose -d 'the device and the rate, once a second'
__reclaimctl_option run -l strategy -xa 'auto moosefs-snapshot moosefs-snapshot:50ms' -d 'another way to remove'
__reclaimctl_option run -l trace -rF -d 'write what the sensors measure to a file'

__reclaimctl_option submit -l undo -xa '0 1h 1d' -d 'hold it for so long'
__reclaimctl_option 'submit set' -l by -xa '1h 8h 06:00 none' -d 'be done by then'
__reclaimctl_option 'submit set' -l priority -xa 'low normal high' -d 'which jobs come first'
__reclaimctl_option submit -l wait -fa 'done free:' -d 'until it is done, or so much is free'

__reclaimctl_option wait -l no-settle -d 'do not wait until what is left is written back'
__reclaimctl_option wait -l free -xa '10G 10%' -d 'until so much is free'
__reclaimctl_option 'list show pause resume trim' -l all -d 'everything'
__reclaimctl_option list -l state -xa 'accepted held queued running paused done partial failed cancelled restored' -d 'those in these states'
__reclaimctl_option list -l user -xa '(__fish_complete_users)' -d 'those of this user'
__reclaimctl_option list -s n -l lines -xa '10 100' -d 'so many, the newest'
__reclaimctl_option list -l fleet -d 'those that are shared, of all hosts of the fleet'
__reclaimctl_option 'list spools' -l no-legend -d 'no titles and no sum'
__reclaimctl_option trim -l configured -d 'as the configuration says'
__reclaimctl_option trim -l min -xa '1M 16M' -d 'leave what is free in smaller pieces'
__reclaimctl_option pin -l until -xa '7d 30d' -d 'to the end of that day, or for so long'
__reclaimctl_option pin -l list -d 'say whether they are pinned'
__reclaimctl_option restore -l to -rF -d 'to this place'
__reclaimctl_option 'devices top' -l interval -xa '0 1s 10s' -d 'how long to look'
__reclaimctl_option metrics -l output -rF -d 'write to a file'
__reclaimctl_option metrics -l format -xa 'openmetrics prometheus' -d 'which text format'
__reclaimctl_option 'run trim plan policy fleet list' -l configuration-directory -xa '(__fish_complete_directories)' -d 'in place of /etc/reclaimd'
__reclaimctl_option 'fleet list' -l database -x -d 'in place of the one that is configured'
__reclaimctl_option 'policy trim' -l state-directory -xa '(__fish_complete_directories)' -d 'where results are kept'
__reclaimctl_option 'policy check-config' -l user -d 'your own policies, with your own rights'
__reclaimctl_option policy -l force -d 'run: all of it, even if it is more than max-delete'
__reclaimctl_option policy -l wait -fa done -d 'run: until its job has ended'
__reclaimctl_option policy -l clock-is-right -d 'run: even if the clock was set'

complete -c reclaimctl -n '__reclaimctl_verb_is submit run trim plan pin unpin devices check-config; and not string match -q -- "-*" (commandline -ct)' -F
complete -c reclaimctl -n '__reclaimctl_verb_is wait; and __fish_seen_argument -l free' -F
complete -c reclaimctl -n '__reclaimctl_verb_is show wait cancel pause resume restore retry set' -a '(__reclaimctl_jobs)'
complete -c reclaimctl -n __reclaimctl_fleet_needs_what -a 'hosts units init'
complete -c reclaimctl -n __reclaimctl_policy_needs_what -a 'list plan run'
complete -c reclaimctl -n '__reclaimctl_verb_is policy; and not __reclaimctl_policy_needs_what' -a '(__reclaimctl_policies)'
