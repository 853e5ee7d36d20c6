/**
 * The pure half of a hook: who acts, what the event means for files, and what is to be done about their leases. No clock, no
 * file system, no store: what these say comes in as facts, and what is to be done goes out as a plan.
 */
import path from 'node:path'
import { isAloneOn } from '../core/covering-leases.ts'
import { invalid } from '../core/errors.ts'
import type { LeaseInfo, Metadata } from '../core/lease.ts'
import { nameOf, type Resource } from '../core/resource.ts'
import type { HookEvent } from './hook-clients.ts'
import type { SessionMemory } from './session-memory.ts'
import type { ShellReading } from './shell/shell-reading.ts'

/** The main agent's name in a session's memory and in a holder's name. */
export const MAIN = 'main'

export interface HookAgent {
  readonly holder: string
  /** The holder of the session's main agent, inside of whose leases a subagent may take its own; null for that one. */
  readonly parent: string | null
  /** In the memory of its session. */
  readonly name: string
  /** As `sessionName` says. */
  readonly session: string
}

const PLAIN_ID = /^[\w.-]{1,48}$/

/** `claude:SESSION`: names a session among all, in its holders and for its memory. Long and odd ids are `digest`ed. */
export function sessionName(
  { client, session }: Pick<HookEvent, 'client' | 'session'>,
  digest: (text: string) => string,
): string {
  return `${client}:${shortId(session, digest)}`
}

/** The session of a holder's name, if a hook made it; null otherwise. */
export function sessionOfHolder(holder: string): string | null {
  return /^((?:claude|codex|gemini|cursor|copilot):[^/]+)\/[^/]+$/.exec(holder)?.[1] ?? null
}

/** `claude:SESSION/main`, `claude:SESSION/AGENT`; or the name that was given, with a subagent's behind it. */
export function agentOf(
  event: Pick<HookEvent, 'client' | 'session' | 'agent'>,
  given: string | null,
  digest: (text: string) => string,
): HookAgent {
  const base = sessionName(event, digest)
  const main = given ?? `${base}/${MAIN}`
  if (event.agent === null) return { holder: main, parent: null, name: MAIN, session: base }
  const name = shortId(event.agent, digest)
  const isOwnName = given === null || given === `${base}/${MAIN}`
  return { holder: `${isOwnName ? base : given}/${name}`, parent: main, name, session: base }
}

function shortId(id: string, digest: (text: string) => string): string {
  return PLAIN_ID.test(id) ? id : digest(id)
}

/** What is about to happen to files, or has: of a shell command what was read of it. */
export interface Intent extends ShellReading {
  /** Absolute. */
  readonly reads: readonly string[]
  /** For the lease: what the holder does. */
  readonly reason: string
}

export const NO_INTENT: Intent = {
  ...{ writes: [], reads: [], checkouts: [], commits: [], named: [] },
  ...{ isKnown: true, reason: '' },
}

const REASON_MAX = 100

/** `readShell` is asked for shell commands only. */
export function intentOf(
  { act, client, cwd }: HookEvent,
  readShell: (command: string) => ShellReading,
): Intent {
  const absolute = (paths: readonly string[]): readonly string[] => {
    return [...new Set(paths.map((each) => path.resolve(cwd, requirePath(each))))]
  }
  switch (act.kind) {
    case 'edit':
      return { ...NO_INTENT, writes: absolute(act.paths), reason: `${act.tool} of ${client}` }
    case 'read':
      return { ...NO_INTENT, reads: absolute(act.paths) }
    case 'shell': {
      const command = act.command.replaceAll(/\s+/g, ' ').trim().slice(0, REASON_MAX)
      return { ...NO_INTENT, ...readShell(act.command), reason: `shell of ${client}: ${command}` }
    }
    case 'lease_tool':
    case 'other':
      return NO_INTENT
  }
}

function requirePath(name: string): string {
  if (name.includes('\ufffd')) throw invalid('path', 'must be valid UTF-8', name)
  const isForeign = path.sep === '/' && /^(?:[A-Za-z]:[\\/]|\\\\)/.test(name)
  if (isForeign) throw invalid('path', 'must be a path of this system', name)
  return name
}

/** A file that is to be written. */
export interface Target {
  /** Canonical. */
  readonly path: string
  readonly resource: Resource
}

export interface LeaseFacts {
  readonly agent: HookAgent
  readonly memory: SessionMemory
  /** Of the store that was asked. */
  readonly store: string
  readonly nowMs: number
  readonly idleMs: number
  /** All live leases of the agent, and of its parent. */
  readonly own: readonly LeaseInfo[]
  readonly parents: readonly LeaseInfo[]
}

export interface LeasePlan {
  /** Held already, by a lease of the agent's own. */
  readonly covered: readonly { readonly target: Target; readonly lease: LeaseInfo }[]
  /** Inside of what the parent holds. */
  readonly derive: readonly { readonly target: Target; readonly parent: LeaseInfo }[]
  readonly acquire: readonly Target[]
  /** Those of the parent first: what is derived lasts no longer than what it comes from. */
  readonly renewParents: readonly LeaseInfo[]
  readonly renew: readonly LeaseInfo[]
  /** They have almost reached the longest hold, and are to be asked for anew, behind the waiters. */
  readonly release: readonly LeaseInfo[]
  /** Leases that the agent was given and has no longer. */
  readonly missing: readonly { readonly leaseId: string; readonly path: string }[]
}

/** A lease that can be held no longer than so is given back before a new edit. */
const ENDING_MS = 60_000

export function planLeases(facts: LeaseFacts, targets: readonly Target[]): LeasePlan {
  const { agent, memory, own, parents, nowMs } = facts
  const release = own.filter((lease) => isTarget(lease, targets) && isEnding(lease, nowMs))
  const kept = own.filter((lease) => !release.includes(lease))
  const covered: { readonly target: Target; readonly lease: LeaseInfo }[] = []
  const derive: { readonly target: Target; readonly parent: LeaseInfo }[] = []
  const acquire: Target[] = []
  for (const target of targets) {
    const file = { resource: target.resource, extent: 'exact' } as const
    const lease = kept.find((one) => isAloneOn(one, file))
    const parent = parents.find((one) => isAloneOn(one, file))
    if (lease !== undefined) covered.push({ target, lease })
    else if (parent !== undefined) derive.push({ target, parent })
    else acquire.push(target)
  }
  const touched = new Set(targets.map(({ resource }) => resource))
  const wanted = kept.filter((lease) => isDue(lease, facts, touched))
  const sources = new Set(wanted.map(({ parentId }) => parentId))
  const given = [...memory.leases].filter(([, { agent: name, store }]) => {
    return name === agent.name && store === facts.store
  })
  return {
    ...{ covered, derive, acquire, release },
    renewParents: parents.filter((lease) => {
      const isSource = derive.some(({ parent }) => parent === lease) || sources.has(lease.id)
      return isSource && isPartlyGone(lease)
    }),
    renew: wanted,
    missing: given
      .filter(([leaseId]) => !own.some(({ id }) => id === leaseId))
      .map(([leaseId, { path: file }]) => ({ leaseId, path: file })),
  }
}

function isTarget(lease: LeaseInfo, targets: readonly Target[]): boolean {
  return lease.extent === 'exact' && targets.some(({ resource }) => resource === lease.resource)
}

function isEnding({ maxHoldMs, grantedAtMs }: LeaseInfo, nowMs: number): boolean {
  if (maxHoldMs === null || grantedAtMs === null) return false
  return grantedAtMs + maxHoldMs - nowMs < ENDING_MS
}

/** Renewed are leases that hooks took, whose file was edited lately, once a third of their time has gone. */
function isDue(lease: LeaseInfo, facts: LeaseFacts, touched: ReadonlySet<Resource>): boolean {
  const { agent, memory, nowMs, idleMs } = facts
  const known = memory.leases.get(lease.id)
  if (known === undefined && !isHookLease(lease, agent)) return false
  const editedAtMs = memory.editedAtMs.get(nameOf(lease.resource)) ?? 0
  const isBusy = touched.has(lease.resource) || nowMs - editedAtMs < idleMs
  return isBusy && isPartlyGone(lease)
}

function isPartlyGone({ remainingMs, ttlMs, revoking }: LeaseInfo): boolean {
  return revoking === null && remainingMs < (ttlMs * 2) / 3
}

/** Whether a lease is of the agent itself, or of the one inside of whose leases it works. */
export function isOwnLease({ holder }: { readonly holder: string }, agent: HookAgent): boolean {
  return holder === agent.holder || holder === agent.parent
}

const MARK = 'tenure.hook'

/** By this a lease that a hook has taken is known as such, also where the hook was killed before it could remember. */
export function hookMetadata({ session }: HookAgent): Metadata {
  return { [MARK]: session }
}

export function isHookLease({ metadata }: LeaseInfo, { session }: HookAgent): boolean {
  return metadata?.[MARK] === session
}
