/**
 * One event of a coding agent, carried out: asks the store, the file system and the session's memory for the facts, lets
 * `hook-plan.ts` choose, and does what it says.
 *
 * Promised: an edit is let through only under a lease of its agent, or while none was ever asked for. Not promised: what a
 * program writes that says nothing beforehand; that is looked at afterwards, for the paths that its command names.
 */
import path from 'node:path'
import type { LeaseInfo } from '../core/lease.ts'
import { pathError } from '../core/errors.ts'
import { nameOf, parseResource, type Resource } from '../core/resource.ts'
import { report } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { Questions } from '../service/lease-questions.ts'
import { activeOf } from '../service/list-all.ts'
import type { HookEvent, HookDecision } from './hook-clients.ts'
import {
  isHookLease,
  isOwnLease,
  planLeases,
  sessionOfHolder,
  type HookAgent,
  type Intent,
  type LeaseFacts,
  type LeasePlan,
  type Target,
} from './hook-plan.ts'
import {
  checkoutText,
  deniedText,
  directoryText,
  heldLine,
  lostText,
  staleText,
  tooManyText,
  trespassText,
  type SeenLease,
} from './hook-words.ts'
import { releaseLeases, renewLeases, takeLeases } from './lease-taking.ts'
import { MemoryFile, sweepMemories } from './memory-file.ts'
import {
  seenKey,
  type MemoryRecord,
  type SessionMemory,
  type WatchedFile,
} from './session-memory.ts'
import { checkoutRoot, contentHash, dirtyFiles, isDirectory, isInside, isThere } from './tree.ts'

/** The store that the leases of a directory's files are in. */
export interface HookStore {
  readonly key: string
  /** Whether the store exists. */
  readonly isMade: boolean
  open(): Promise<LeaseApi>
  /** For callers that only read. */
  look(): Promise<Questions>
}

export interface HookHost {
  readonly runtime: Runtime
  readonly memoryDirectory: string
  /** Where the client was started, if it says so; its files count as the session's, wherever its shell has gone. */
  readonly projectDirectory: string | null
  storeOf(directory: string): HookStore
}

export interface HookRunOptions {
  readonly event: HookEvent
  readonly agent: HookAgent
  readonly intent: Intent
  readonly memory: SessionMemory
  readonly file: MemoryFile
  readonly host: HookHost
  /** Whether what is told reaches the model. */
  readonly isHeard: boolean
}

/** At most so many leases are taken for one event. */
const FILES_MAX = 1_000
const LINES_MAX = 20
/** A denial is remembered so long: what the agent does next may be another way to the same file. */
const DENIAL_MS = 600_000
const WATCHED_MAX = 200
const NAMED_MAX = 32
/** A holder that has edited so shortly before may still be writing. */
const HOLDER_WRITES_MS = 60_000
const LOST_TOLD_MAX = 5
const TRIES = 3

export class HookRun {
  readonly #parts: HookRunOptions
  readonly #records: MemoryRecord[] = []
  readonly #told: string[] = []
  /** Leases that were lost, and what the model is to hear of it. */
  readonly #news: { readonly leaseId: string; readonly text: string }[] = []
  readonly #open = new Map<string, Promise<LeaseApi>>()
  readonly #roots = new Map<string, string | null>()
  readonly #nowMs: number

  constructor(parts: HookRunOptions) {
    this.#parts = parts
    this.#nowMs = parts.host.runtime.wallMs()
  }

  async decision(): Promise<HookDecision> {
    try {
      const denial = await this.#react()
      this.#tellNews(denial !== null)
      if (denial !== null) return { kind: 'deny', reason: [denial, ...this.#told].join(' ') }
      if (this.#told.length > 0) return { kind: 'tell', text: this.#told.join('\n') }
      return this.#holderInput()
    } finally {
      this.#remember()
      await this.#close()
    }
  }

  get #seen(): SeenLease {
    return { cwd: this.#parts.event.cwd, nowMs: this.#nowMs }
  }

  /** Resolves to why it is denied; null if it is not. */
  async #react(): Promise<string | null> {
    switch (this.#parts.event.moment) {
      case 'session_start':
        await this.#sessionStart()
        return null
      case 'before':
        return this.#before()
      case 'after':
        await this.#after()
        return null
      case 'agent_end':
      case 'session_end':
        await this.#end()
        return null
      case 'other':
        return null
    }
  }

  /** Tenure's own tools are told who calls them, and for a subagent whose leases its own may be inside, where the call does not say. */
  #holderInput(): HookDecision {
    const { event, agent } = this.#parts
    const { act } = event
    const isUnnamed = act.kind === 'lease_tool' && act.input['holder'] === undefined
    if (event.moment !== 'before' || !isUnnamed) return { kind: 'nothing' }
    const { holder, parent } = agent
    const isInside = act.tool === 'lease_acquire' && parent !== null
    return { kind: 'input', input: { ...act.input, holder, ...(isInside ? { parent } : {}) } }
  }

  async #sessionStart(): Promise<void> {
    const { host, event } = this.#parts
    sweepMemories(host.memoryDirectory, this.#nowMs)
    const store = host.storeOf(event.cwd)
    if (!store.isMade) return
    const others = await this.#othersBelow(
      await this.#api(store),
      checkoutRoot(event.cwd) ?? event.cwd,
    )
    const lines = others.slice(0, LINES_MAX).map((lease) => heldLine(lease, this.#seen))
    const more = others.length - lines.length
    this.#told.push(...lines, ...(more > 0 ? [`and ${more} more leases of others`] : []))
  }

  async #before(): Promise<string | null> {
    const { intent, agent } = this.#parts
    for (const { path: file } of this.#targets(intent.reads)) {
      this.#records.push({ k: 'seen', agent: agent.name, path: file, hash: contentHash(file) })
    }
    const denial = (await this.#checkouts()) ?? (await this.#edits())
    if (denial !== null) return denial
    if (!intent.isKnown) await this.#watch()
    if (intent.writes.length === 0) await this.#heartbeat()
    return null
  }

  async #checkouts(): Promise<string | null> {
    const { intent, host, agent } = this.#parts
    for (const { directory, command } of intent.checkouts) {
      const root = checkoutRoot(directory)
      const store = root === null ? null : host.storeOf(root)
      if (root === null || store === null || !store.isMade) continue
      const leases = await this.#leasesBelow(await this.#api(store), root)
      const others = leases.filter(({ holder }) => holder !== agent.holder)
      const [other] = others
      if (other !== undefined) return checkoutText(command, other, others.length, this.#seen)
    }
    return null
  }

  async #edits(): Promise<string | null> {
    const { intent } = this.#parts
    const targets = this.#targets(intent.writes)
    for (const some of grouped(targets, ({ path: file }) => this.#storeOf(file).key)) {
      const denial = await this.#edit(some)
      if (denial !== null) return denial
    }
    return null
  }

  #storeOf(file: string): HookStore {
    return this.#parts.host.storeOf(path.dirname(file))
  }

  async #edit(targets: readonly Target[]): Promise<string | null> {
    const { agent, host, intent } = this.#parts
    const [first] = targets
    if (first === undefined) return null
    const store = this.#storeOf(first.path)
    const api = await this.#api(store)
    const files = targets.filter(({ path: file }) => !isDirectory(file))
    for (const { path: directory } of targets.filter((target) => !files.includes(target))) {
      const [other] = await this.#othersBelow(api, directory)
      if (other === undefined) continue
      this.#deny(nameOf(other.resource))
      return directoryText(directory, other, this.#seen)
    }
    for (let left = TRIES; ; left -= 1) {
      const facts = await this.#facts(api, store, first.resource)
      const plan = planLeases(facts, files)
      const count = plan.acquire.length + plan.derive.length
      if (count > FILES_MAX) return tooManyText(count, FILES_MAX)
      if (left === TRIES) await this.#tellLost(api, plan.missing)
      await this.#renew(api, plan)
      const { ttlMs } = facts
      const taking = { api, agent, runtime: host.runtime, ttlMs, reason: intent.reason }
      const taken = await takeLeases(taking, plan)
      if (taken.kind === 'taken') return this.#granted(store, plan, taken.leases)
      const { target, blockers } = taken
      const other = blockers.find((blocker) => !isOwnLease(blocker, agent))
      // Another hook of this agent was faster: what it took is found at the next look.
      if (other === undefined && left > 1) continue
      const [blocker] = other === undefined ? blockers : [other]
      if (blocker === undefined) throw new Error(`${target.path} has no holder`)
      this.#deny(target.path)
      return deniedText(target.path, blocker, this.#seen)
    }
  }

  #deny(file: string): void {
    this.#records.push({ k: 'denied', path: file, atMs: this.#nowMs })
  }

  async #facts(api: Questions, store: HookStore, resource: Resource): Promise<Facts> {
    const { agent, memory } = this.#parts
    const settings = await api.settings({ resource })
    if (settings.hook_on_failure !== (memory.onFailure ?? 'closed')) {
      this.#records.push({ k: 'policy', onFailure: settings.hook_on_failure })
    }
    return {
      ...{ agent, memory, store: store.key, nowMs: this.#nowMs },
      idleMs: settings.hook_idle_seconds * 1000,
      ttlMs: settings.hook_ttl_seconds * 1000,
      own: await activeOf(api, agent.holder),
      parents: agent.parent === null ? [] : await activeOf(api, agent.parent),
    }
  }

  async #renew(api: LeaseApi, plan: LeasePlan): Promise<void> {
    await releaseLeases(api, plan.release)
    await renewLeases(api, plan.renewParents)
    await renewLeases(api, plan.renew)
  }

  /** The files are leased now, so that no other agent with hooks changes them: compares them with what was read before. */
  #granted(
    store: HookStore,
    plan: LeasePlan,
    taken: readonly { readonly target: Target; readonly leaseId: string }[],
  ): string | null {
    const { agent, memory, event } = this.#parts
    const known = plan.covered.map(({ target, lease }) => {
      const isHooks = memory.leases.has(lease.id) || isHookLease(lease, agent)
      const isExact = lease.resource === target.resource && isHooks
      return { target, leaseId: isExact ? lease.id : null }
    })
    let stale: string | null = null
    for (const { target, leaseId } of [...known, ...taken]) {
      const { path: file } = target
      const common = { agent: agent.name, path: file }
      this.#records.push({ k: 'edit', ...common, leaseId, store: store.key, atMs: this.#nowMs })
      const hash = contentHash(file)
      const before = memory.seen.get(seenKey(agent.name, file))
      if (before === hash) continue
      this.#records.push({ k: 'seen', ...common, hash })
      if (before !== undefined) stale ??= staleText(file, event.cwd)
    }
    return stale
  }

  /** Keeps what the agent has, and tells what it has lost, where the event itself needs no lease. */
  async #heartbeat(): Promise<void> {
    const { host, event, agent, memory } = this.#parts
    const store = host.storeOf(event.cwd)
    const held = [...memory.leases.values()].filter((lease) => {
      return lease.agent === agent.name && lease.store === store.key
    })
    if (held.length === 0 || !store.isMade) return
    const plan = await this.#lookAt(store)
    if (plan.renew.length + plan.missing.length === 0) return
    const api = await this.#api(store)
    await this.#tellLost(api, plan.missing)
    await this.#renew(api, plan)
  }

  async #lookAt(store: HookStore): Promise<LeasePlan> {
    const questions = await store.look()
    try {
      const root = this.#resource(this.#parts.event.cwd)
      return planLeases(await this.#facts(questions, store, root), [])
    } finally {
      await questions.close()
    }
  }

  /** A lease that expired and has no next holder is not reported. */
  async #tellLost(api: LeaseApi, missing: LeasePlan['missing']): Promise<void> {
    for (const { leaseId, path: file } of missing.slice(0, LOST_TOLD_MAX)) {
      const ended = await api.get({ id: leaseId })
      const next = await this.#otherHolder(api, this.#resource(file))
      const isNews = ended?.state === 'revoked' || (ended?.state !== 'released' && next !== null)
      if (isNews) this.#news.push({ leaseId, text: lostText(file, { ended, next }, this.#seen) })
      else this.#records.push({ k: 'gone', leaseId })
    }
  }

  /** With a denial everything is heard; otherwise what the client does not pass on is kept for the next event. */
  #tellNews(isDenied: boolean): void {
    if (!isDenied && !this.#parts.isHeard) return
    for (const { leaseId, text } of this.#news) {
      this.#told.push(text)
      this.#records.push({ k: 'gone', leaseId })
    }
  }

  async #otherHolder(api: LeaseApi, resource: Resource): Promise<LeaseInfo | null> {
    const { agent } = this.#parts
    const { leases } = await api.inspect({ resource })
    return leases.find((lease) => !isOwnLease(lease, agent)) ?? null
  }

  /** Notes how the files stand that others hold and that a command names whose effect is not known. */
  async #watch(): Promise<void> {
    const { intent, memory, agent } = this.#parts
    const denied = [...memory.deniedAtMs].filter(([, atMs]) => this.#nowMs - atMs < DENIAL_MS)
    const named = intent.named.filter(isThere).slice(0, NAMED_MAX)
    const files: WatchedFile[] = []
    for (const { path: file, resource } of this.#targets([...denied.map(([f]) => f), ...named])) {
      const store = this.#storeOf(file)
      if (!store.isMade) continue
      const isTree = isDirectory(file)
      const api = await this.#api(store)
      const { leases } = await api.inspect({ resource, extent: isTree ? 'subtree' : 'exact' })
      for (const lease of leases.filter((one) => !isOwnLease(one, agent))) {
        const written = lease.extent === 'exact' ? nameOf(lease.resource) : isTree ? null : file
        if (written === null || files.length >= WATCHED_MAX) continue
        const { id: leaseId, holder } = lease
        files.push({ path: written, hash: contentHash(written), leaseId, holder })
      }
    }
    if (files.length === 0) return
    const call = { agent: agent.name, callId: this.#callId, atMs: this.#nowMs }
    this.#records.push({ k: 'watch', ...call, files })
  }

  get #callId(): string {
    const { event, agent } = this.#parts
    return event.callId ?? `last of ${agent.name}`
  }

  async #after(): Promise<void> {
    const { event, intent } = this.#parts
    if (event.act.kind === 'edit' && !event.hasFailed) await this.#unaskedEdits()
    if (event.act.kind === 'shell') await this.#compareWatched()
    this.#see()
    if (intent.commits.length > 0) await this.#committed()
    await this.#heartbeat()
  }

  /** What the agent holds is its own to change, so that it knows the content from now on. */
  #see(): void {
    const { event, intent, agent, memory } = this.#parts
    if (event.act.kind !== 'edit' && event.act.kind !== 'shell') return
    const held = [...memory.leases.values()].filter((lease) => lease.agent === agent.name)
    const files = new Set(held.map((lease) => lease.path))
    for (const { path: file } of this.#targets(intent.writes)) {
      if (!memory.editedAtMs.has(file)) continue
      files.add(file)
      this.#records.push({ k: 'done', path: file, atMs: this.#nowMs })
    }
    for (const file of files) {
      const hash = contentHash(file)
      if (memory.seen.get(seenKey(agent.name, file)) === hash) continue
      this.#records.push({ k: 'seen', agent: agent.name, path: file, hash })
    }
  }

  /** Edits that no hook was asked about: clients that tell of them only when they are done. */
  async #unaskedEdits(): Promise<void> {
    const { intent, memory } = this.#parts
    const unasked = this.#targets(intent.writes).filter(({ path: file }) => {
      return !memory.editedAtMs.has(file)
    })
    for (const { path: file, resource } of unasked.slice(0, NAMED_MAX)) {
      const store = this.#storeOf(file)
      if (!store.isMade) continue
      const api = await this.#api(store)
      const other = await this.#otherHolder(api, resource)
      if (other !== null) await this.#trespassed(api, file, other.id)
    }
  }

  async #compareWatched(): Promise<void> {
    const { memory } = this.#parts
    const watch = memory.watches.get(this.#callId)
    if (watch === undefined) return
    this.#records.push({ k: 'watched', callId: watch.callId })
    for (const { path: file, hash, leaseId, holder } of watch.files) {
      if (contentHash(file) === hash || this.#hasEdited(holder, file, watch.atMs)) continue
      const api = await this.#api(this.#storeOf(file))
      await this.#trespassed(api, file, leaseId)
    }
  }

  /** Whether the holder itself has edited the file meanwhile, or so shortly before that it may be the one who wrote. */
  #hasEdited(holder: string, file: string, sinceMs: number): boolean {
    const session = sessionOfHolder(holder)
    if (session === null) return false
    const memory = new MemoryFile(this.#parts.host.memoryDirectory, session).read()
    return (memory.editedAtMs.get(file) ?? 0) > sinceMs - HOLDER_WRITES_MS
  }

  async #trespassed(api: LeaseApi, file: string, leaseId: string): Promise<void> {
    const { agent, intent } = this.#parts
    const request = { id: leaseId, by: agent.holder, target: this.#resource(file) }
    const answer = await api.trespass({ ...request, reason: intent.reason })
    if (answer.kind === 'trespassed') this.#told.push(trespassText(file, answer.lease, this.#seen))
  }

  /** Gives back what the agent has edited and committed: nothing of it is left to protect. */
  async #committed(): Promise<void> {
    const { intent, agent, memory, host } = this.#parts
    const held = [...memory.leases].filter(([, lease]) => lease.agent === agent.name)
    for (const directory of intent.commits) {
      const root = checkoutRoot(directory)
      if (root === null) continue
      const mine = held.filter(([, { path: file }]) => isInside(root, file) && this.#isDone(file))
      if (mine.length === 0) continue
      const dirty = await dirtyFiles(
        root,
        mine.map(([, lease]) => lease.path),
      )
      if (dirty === null) continue
      const api = await this.#api(host.storeOf(root))
      for (const [leaseId, lease] of mine.filter(([, { path: file }]) => !dirty.has(file))) {
        const { holder } = agent
        const place = {
          id: leaseId,
          resource: this.#resource(lease.path),
          extent: 'exact',
        } as const
        await releaseLeases(api, [{ ...place, holder }])
        this.#records.push({ k: 'gone', leaseId })
      }
    }
  }

  /** An edit that was let through and is not done yet still needs its lease, however clean its file is. */
  #isDone(file: string): boolean {
    const { memory, intent } = this.#parts
    const doneAtMs = memory.doneAtMs.get(file) ?? -Infinity
    return doneAtMs >= (memory.editedAtMs.get(file) ?? 0) || intent.writes.includes(file)
  }

  /** The end of a subagent ends what it has; the end of a session also what its subagents have left. */
  async #end(): Promise<void> {
    const { event, agent, memory, host, file } = this.#parts
    const isSession = event.moment === 'session_end'
    // A subagent that is not named cannot be told from its session.
    if (!isSession && agent.parent === null) return
    const held = [...memory.leases].filter(([, lease]) => isSession || lease.agent === agent.name)
    const places = [event.cwd, ...held.map(([, lease]) => path.dirname(lease.path))]
    for (const [place = event.cwd] of grouped(places, (one) => host.storeOf(one).key)) {
      const store = host.storeOf(place)
      if (!store.isMade) continue
      const api = await this.#api(store)
      const known = held.filter(([, lease]) => lease.store === store.key)
      const leases = await Promise.all(known.map(([leaseId]) => api.get({ id: leaseId })))
      // A hook that was killed has taken leases that no memory has.
      const forgotten = (await activeOf(api, agent.holder)).filter((lease) =>
        isHookLease(lease, agent),
      )
      const live = [...leases, ...forgotten].filter((lease) => lease?.state === 'active')
      const byId = new Map(live.filter((lease) => lease !== null).map((lease) => [lease.id, lease]))
      await releaseLeases(api, [...byId.values()])
    }
    this.#records.push(...held.map(([leaseId]): MemoryRecord => ({ k: 'gone', leaseId })))
    if (!isSession) return
    this.#records.length = 0
    file.remove()
  }

  /** Files that belong to a checkout, or to the directory that the session works in; links are followed. */
  #targets(files: readonly string[]): readonly Target[] {
    const { event, host } = this.#parts
    const unique = new Map<string, Target>()
    for (const file of files) {
      const resource = this.#resource(file)
      const name = nameOf(resource)
      const isOurs =
        isInside(event.cwd, name) ||
        isInside(host.projectDirectory ?? event.cwd, name) ||
        this.#rootOf(path.dirname(name)) !== null
      if (isOurs && !name.split('/').includes('.git')) unique.set(name, { path: name, resource })
    }
    return [...unique.values()]
  }

  #resource(file: string): Resource {
    return parseResource(`file:${this.#canonical(file)}`)
  }

  #canonical(file: string): string {
    try {
      return this.#parts.host.runtime.canonicalPath(file)
    } catch (cause) {
      throw pathError('path', file, cause)
    }
  }

  /** Of many files in one directory the checkout is looked for once. */
  #rootOf(directory: string): string | null {
    const known = this.#roots.get(directory)
    if (known !== undefined) return known
    const root = checkoutRoot(directory)
    this.#roots.set(directory, root)
    return root
  }

  async #leasesBelow(api: LeaseApi, directory: string): Promise<readonly LeaseInfo[]> {
    const { leases } = await api.inspect({ resource: this.#resource(directory), extent: 'subtree' })
    return leases
  }

  /** Leases of others at or below a directory, or of all that it is in. */
  async #othersBelow(api: LeaseApi, directory: string): Promise<readonly LeaseInfo[]> {
    const { agent } = this.#parts
    return (await this.#leasesBelow(api, directory)).filter((lease) => !isOwnLease(lease, agent))
  }

  #api(store: HookStore): Promise<LeaseApi> {
    const known = this.#open.get(store.key)
    if (known !== undefined) return known
    const opened = store.open()
    this.#open.set(store.key, opened)
    return opened
  }

  /** What cannot be remembered costs a warning later, and no edit now. */
  #remember(): void {
    try {
      this.#parts.file.append(this.#records)
    } catch (error) {
      report('hooks/memory', error)
    }
  }

  async #close(): Promise<void> {
    for (const opened of this.#open.values()) {
      try {
        await (await opened).close()
      } catch (error) {
        report('hooks/close', error)
      }
    }
  }
}

interface Facts extends LeaseFacts {
  readonly ttlMs: number
}

function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): readonly (readonly Item[])[] {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    groups.set(key, [...(groups.get(key) ?? []), item])
  }
  return [...groups.values()]
}
