/** The sentences of a hook. They state facts and what can be done, for a model that knows nothing of Tenure. */
import path from 'node:path'
import type { Blocker } from '../core/conflict.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { nameOf } from '../core/resource.ts'

const REASON_MAX = 120

/** As a person would write the path here: relative where that is shorter. */
export function shownPath(file: string, cwd: string): string {
  const relative = path.relative(cwd, file)
  return relative === '' || relative.startsWith('..') ? file : relative
}

/** `14:05:10 UTC`, with the date where it is another day. */
export function timeOfDay(atMs: number, nowMs: number): string {
  const [date = '', time = ''] = new Date(atMs).toISOString().split('T')
  const clock = `${time.slice(0, 8)} UTC`
  return new Date(nowMs).toISOString().startsWith(date) ? clock : `${date} ${clock}`
}

function reasonWords(reason: string | null): string {
  if (reason === null) return ''
  const line = reason.replaceAll(/\s+/g, ' ').slice(0, REASON_MAX)
  return ` ("${line}")`
}

export interface SeenLease {
  readonly cwd: string
  readonly nowMs: number
}

/** Who has a file, why, until when, and what can be done. */
export function deniedText(file: string, blocker: Blocker, { cwd, nowMs }: SeenLease): string {
  const shown = shownPath(file, cwd)
  const wait = `tenure wait ${quoted(shown)} --timeout 100s`
  const advice = `wait for it with \`${wait}\` and then read it again, or work on something else`
  return `${shown} ${standing(blocker, { cwd, nowMs })}; ${advice}.`
}

function standing(blocker: Blocker, { cwd, nowMs }: SeenLease): string {
  const { kind, holder, reason, expiresAtMs, remainingMs, extent } = blocker
  const until = timeOfDay(expiresAtMs ?? nowMs + remainingMs, nowMs)
  const name = shownPath(blocker.resource.replace(/^file:/, ''), cwd)
  const tree = extent === 'subtree' ? `, with all of ${name},` : ''
  switch (kind) {
    case 'lease':
      return `is held${tree} by ${holder}${reasonWords(reason)} until ${until}`
    case 'offer':
    case 'ticket':
      return `is promised${tree} to ${holder}${reasonWords(reason)}, who waited for it first`
    case 'lock_delay':
      return `was held by ${holder} and stays closed until ${until}`
  }
}

export function staleText(file: string, cwd: string): string {
  const shown = shownPath(file, cwd)
  return `${shown} was changed by another program since you last read it; read it again before you edit it.`
}

export function tooManyText(count: number, max: number): string {
  return `this would write to ${count} files, and at most ${max} are leased at once; split it, or take the directory first with \`tenure acquire DIR/\`.`
}

export function checkoutText(
  command: string,
  other: LeaseInfo,
  count: number,
  seen: SeenLease,
): string {
  const { cwd, nowMs } = seen
  const file = shownPath(nameOf(other.resource), cwd)
  const until = timeOfDay(other.expiresAtMs ?? nowMs, nowMs)
  const more = count > 1 ? ` and ${count - 1} more` : ''
  return `\`${command}\` would change files under other holders: ${other.holder} holds ${file}${reasonWords(other.reason)} until ${until}${more}; wait for them (\`tenure wait ${quoted(file)} --timeout 100s\`), or use a worktree of your own.`
}

export function directoryText(file: string, other: LeaseInfo, seen: SeenLease): string {
  const { cwd, nowMs } = seen
  const inner = shownPath(nameOf(other.resource), cwd)
  const until = timeOfDay(other.expiresAtMs ?? nowMs, nowMs)
  return `${shownPath(file, cwd)} cannot be changed as a whole: ${other.holder} holds ${inner}${reasonWords(other.reason)} until ${until}; wait for it with \`tenure wait ${quoted(inner)} --timeout 100s\`, or work on something else.`
}

/** One line about what another holds. */
export function heldLine(lease: LeaseInfo, { cwd, nowMs }: SeenLease): string {
  const { holder, reason, expiresAtMs, extent } = lease
  const file = shownPath(nameOf(lease.resource), cwd)
  const all = extent === 'subtree' ? ' and all below it' : ''
  return `${file}${all} is held by ${holder}${reasonWords(reason)} until ${timeOfDay(expiresAtMs ?? nowMs, nowMs)}`
}

/** How a lease was lost, and who has the file now. */
export function lostText(
  file: string,
  { ended, next }: { readonly ended: LeaseInfo | null; readonly next: LeaseInfo | null },
  { cwd, nowMs }: SeenLease,
): string {
  const at = ended?.terminatedAtMs ?? ended?.expiresAtMs ?? null
  const when = at === null ? '' : ` at ${timeOfDay(at, nowMs)}`
  const by = ended?.revoking ? ` by ${ended.revoking.by}${reasonWords(ended.revoking.reason)}` : ''
  const how = ended?.state === 'revoked' ? `was revoked${by}` : 'ran out'
  const to =
    next === null
      ? 'it is free now'
      : `${next.holder} holds it since ${timeOfDay(next.grantedAtMs ?? nowMs, nowMs)}${reasonWords(next.reason)}`
  return `Your lease of ${shownPath(file, cwd)} ${how}${when}; ${to}.`
}

export function trespassText(file: string, lease: LeaseInfo, { cwd, nowMs }: SeenLease): string {
  const { holder, reason, expiresAtMs } = lease
  const until = timeOfDay(expiresAtMs ?? nowMs, nowMs)
  return `This command wrote to ${shownPath(file, cwd)}, which ${holder} holds${reasonWords(reason)} until ${until}; the ledger says so now. Leave it as it is, tell your user, and write to it again only when it is free.`
}

export function failureText(client: string, action: string, message: string): string {
  return `Tenure could not check ${action} (${message}), and denies what it cannot check. Tell your user: \`tenure doctor\` says what is wrong, and \`tenure init ${client} --remove\` takes the hooks out.`
}

/** A word as a shell reads it back. */
export function quoted(name: string): string {
  return /^[\w./@+-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`
}
