/**
 * The text of git's hooks, with and without the lines that ask Tenure. They stand at the beginning of a shell script that is
 * there already, right behind its first line, so that it sees the same name, arguments and input as before, and its exit
 * status stays that of the hook. Taking them out gives the script back byte for byte.
 *
 * Text is one character for each byte here: a script need not be UTF-8.
 */

export const HOOKS = ['pre-commit', 'pre-push'] as const
export type Hook = (typeof HOOKS)[number]

const BEGIN =
  '# >>> tenure: refuses what others hold; tenure init git --remove takes these lines out'
const END = '# <<< tenure'
const OWN_HEAD = '#!/bin/sh\n# Made by tenure init git.\n'

/** What a hook is called that is no shell script, or is a link, or is not run, while another calls it. */
export const KEPT_SUFFIX = '.before-tenure'

const CALL_KEPT = `[ ! -x "$0${KEPT_SUFFIX}" ] || exec "$0${KEPT_SUFFIX}" "$@"\n`

/** Shells that read the lines as they are meant. */
const SHELL_PATTERN = /^#![^\n]*[/ ](?:a|ba|da|k|z)?sh(?:[ \t][^\n]*)?\n/

export function isShellScript(text: string): boolean {
  return SHELL_PATTERN.test(text)
}

/** A hook of its own, which goes on with the one that was kept. */
export function newHook(hook: Hook, command: string): string {
  return `${OWN_HEAD}${guardLines(hook, command)}`
}

export function newHookBefore(hook: Hook, command: string): string {
  return `${newHook(hook, command)}${CALL_KEPT}`
}

/** The script with the lines, behind its first one; with these instead of others that are there. */
export function withGuard(text: string, hook: Hook, command: string): string {
  const [first = ''] = SHELL_PATTERN.exec(text) ?? []
  const { start, end } = guardIn(text) ?? { start: first.length, end: first.length }
  return `${text.slice(0, start)}${guardLines(hook, command)}${text.slice(end)}`
}

/** Null for what was a hook of its own, and nothing else. */
export function withoutGuard(text: string): string | null {
  const { start, end } = guardIn(text) ?? { start: 0, end: 0 }
  const left = text.slice(0, start) + text.slice(end)
  return left === OWN_HEAD ? null : left
}

export function hasGuard(text: string): boolean {
  return guardIn(text) !== null
}

function guardIn(text: string): { readonly start: number; readonly end: number } | null {
  const start = text.indexOf(`${BEGIN}\n`)
  const end = text.indexOf(`${END}\n`, start)
  return start < 0 || end < 0 ? null : { start, end: end + END.length + 1 }
}

/** Git says on stdin what is pushed; whatever the script does with that comes after. */
function guardLines(hook: Hook, command: string): string {
  const call = `${command} git ${hook} "$@" || exit $?`
  const lines = hook === 'pre-push' ? pushLines(call) : [call]
  return [BEGIN, ...lines, END, ''].join('\n')
}

function pushLines(call: string): readonly string[] {
  return [
    'tenure_refs=$(cat)',
    `printf '%s\\n' "$tenure_refs" | ${call}`,
    'if [ -z "$tenure_refs" ]; then exec </dev/null; else exec <<TENURE_REFS',
    '$tenure_refs',
    'TENURE_REFS',
    'fi',
  ]
}
