/**
 * The fleet on Redis, in the keys that polling services without Tenure use: `poll:lease:{sessionID}` holds the plain
 * instance id, `poll:node:{instanceID}` holds `1`. What Tenure adds (fence, weight, name, drain) has keys of its own, which
 * those services ignore. Only the discovery of nodes uses SCAN, and `survey`, which is for people.
 */
import { createHash } from 'node:crypto'
import { LeaseError } from '../../core/errors.ts'
import { parseLeaseId } from '../../core/input.ts'
import { batchesOf } from '../../core/batches.ts'
import { scriptCommand, type ScriptCall } from '../../drivers/redis-driver.ts'
import { isNoScript } from '../../drivers/redis-errors.ts'
import { report, reportTo } from '../../runtime/diagnostics.ts'
import {
  asLeaseError,
  type AcquireReply,
  type FleetLayout,
  type FleetNode,
  type Grant,
  type GrantReply,
  type LayoutListener,
  type NodeView,
  type OwnedRow,
  type Survey,
} from '../fleet-layout.ts'
import { LEASE_TTL_MS_DEFAULT, type FleetSettings } from '../fleet-options.ts'
import type { ConnectionListener, PollClient, Send } from './poll-client.ts'
import type { PollCommand, PollReply } from './poll-connection.ts'
import { NODE_KEYS, type PollKeys, SCRIPTS } from './poll-keys.ts'

/** The fence of a session without an owner for so long may be forgotten; the next is higher by the clock. */
const FENCE_TTL_MS = 30 * 86_400_000
/** A drain ends after this, unless it is repeated. */
const DRAIN_TTL_MS = 86_400_000
/** Leases per script: at one or two microseconds each, other clients wait for a millisecond or two at most. */
export const SCRIPT_GRANTS_MAX = 1_000
export const SCAN_COUNT = 1_000
/** Pages of SCAN for each read of the nodes, after the first. */
export const SCAN_PAGES_MAX = 8

export interface PollLayoutOptions {
  readonly client: PollClient
  readonly keys: PollKeys
  readonly settings: FleetSettings
}

export class PollLayout implements FleetLayout {
  readonly name = 'poll'
  readonly #client: PollClient
  readonly #keys: PollKeys
  readonly #settings: FleetSettings
  /** Heartbeats that SCAN has found. */
  readonly #scanned = new Set<string>()
  /** Where SCAN continues; null before the first read of the nodes. */
  #scan: ScanPlace | null = null
  /** Our instances without a heartbeat, at the last read of the nodes. */
  #hidden: readonly FleetNode[] = []
  /** The longest TTL of leases that this instance has seen in the fleet. */
  #longestTtlMs: number
  #hasHandshaken = false
  #listener: LayoutListener | null = null

  constructor({ client, keys, settings }: PollLayoutOptions) {
    this.#client = client
    this.#keys = keys
    this.#settings = settings
    this.#longestTtlMs = settings.leaseTtlMs
  }

  /** As it is spelled: for foreign instances it is text, and another spelling is another key. */
  parseSessionId(value: unknown): string {
    parseLeaseId(value, 'sessionId')
    return String(value)
  }

  async open(listener: LayoutListener | null): Promise<void> {
    const { changed } = this.#keys
    const transfers = this.#keys.transfers(this.#settings.instanceId)
    const losses = (): string => this.#keys.losses(this.#client.server.database)
    const onMessage = (channel: string, text: string): void => {
      if (channel === losses()) return this.#onLossNotified()
      if (channel !== transfers) return listener?.nodesChanged()
      const [sessionId = '', from] = text.split(' ')
      listener?.transferred(sessionId, from ?? null)
    }
    this.#listener = listener
    const connectionListener: ConnectionListener = {
      message: onMessage,
      disconnected: () => listener?.disconnected(),
      // An observer asks for no session, so that it makes none.
      handshake: async (send) => (listener === null ? undefined : this.#handshake(send)),
      resubscribed: () => listener?.nodesChanged(),
    }
    await this.#client.open(connectionListener, () => {
      return listener === null ? [] : [transfers, changed, losses()]
    })
    await this.#ask(Object.values(SCRIPTS).map((text) => ['SCRIPT', 'LOAD', text]))
  }

  async acquire(
    sessionIds: readonly string[],
    reclaimed: ReadonlySet<string> = new Set(),
  ): Promise<readonly AcquireReply[]> {
    const calls = sessionIds.map((id) => this.#acquireCall(id, reclaimed.has(id)))
    const replies = await this.#evaluate(calls)
    const refused = calls.filter((_, index) => needsHandshake(replies[index]))
    const again = refused.length === 0 ? [] : [...(await this.#handshakeAndEvaluate(refused))]
    const { instanceId } = this.#settings
    return sessionIds.map((sessionId, index) => {
      const reply = needsHandshake(replies[index]) ? again.shift() : replies[index]
      return acquireReply({ sessionId, instanceId }, reply)
    })
  }

  #acquireCall(sessionId: string, isReclaimed: boolean): ScriptCall {
    const { instanceId, leaseTtlMs } = this.#settings
    const { run, lost } = this.#keys
    const keys = this.#keysOf(sessionId)
    const args = [instanceId, String(leaseTtlMs), String(FENCE_TTL_MS)]
    // On a Cluster these are on other servers than the lease.
    if (this.#client.isCluster) return { script: SCRIPTS.acquire, keys, args }
    const more = [this.#client.server.runId, isReclaimed ? '1' : '0']
    return { script: SCRIPTS.acquire, keys: [...keys, run, lost], args: [...args, ...more] }
  }

  /** The data is not that of the server's run: a handshake comes before the scripts run again. */
  async #handshakeAndEvaluate(calls: readonly ScriptCall[]): Promise<readonly PollReply[]> {
    try {
      await this.#handshake((commands) => this.#client.send(commands))
    } catch (error) {
      const failure = asLeaseError(error)
      return calls.map(() => failure)
    }
    return this.#evaluate(calls)
  }

  /** Finds out whether the server still has what it granted; if not, a grace period begins. */
  async #handshake(send: Send): Promise<void> {
    const { runId, database } = this.#client.server
    const losses = this.#keys.losses(database)
    const keys = [this.#keys.run, this.#keys.lost]
    const args = [runId, String(this.#longestTtlMs), this.#hasHandshaken ? '1' : '0', losses]
    const [reply] = await send([scriptCommand('EVAL', { script: SCRIPTS.handshake, keys, args })])
    if (reply instanceof Error) throw refusedError(reply)
    this.#hasHandshaken = true
    if (reply !== 1) return
    report('fleet/data-loss', dataLostError(this.#longestTtlMs))
    this.#listener?.dataLost()
    const [published] = await send([['PUBLISH', losses, runId]])
    if (published instanceof Error) report('fleet/data-loss', refusedError(published))
  }

  /** Another instance has noticed a loss: sessions must be renewed or reclaimed, and this TTL may be the longest. */
  #onLossNotified(): void {
    this.#listener?.dataLost()
    this.#handshake((commands) => this.#client.send(commands)).catch(reportTo('fleet/redis/meet'))
  }

  async renew(grants: readonly Grant[]): Promise<readonly GrantReply[]> {
    const { instanceId, leaseTtlMs } = this.#settings
    const args = [instanceId, String(leaseTtlMs)]
    return this.#forEach(grants, (batch) => {
      const keys = batch.map(({ sessionId }) => this.#keys.of('lease', sessionId))
      return { script: SCRIPTS.renew, keys, args }
    })
  }

  async release(grants: readonly Grant[]): Promise<readonly GrantReply[]> {
    const { instanceId } = this.#settings
    return this.#forEach(grants, (batch) => {
      const keys = batch.flatMap(({ sessionId }) => this.#keysOf(sessionId))
      return {
        script: SCRIPTS.release,
        keys,
        args: [instanceId, ...batch.map(({ token }) => token)],
      }
    })
  }

  async transfer(grant: Grant, to: FleetNode): Promise<GrantReply> {
    if (to.isForeign) {
      const [released = { kind: 'gone' }] = await this.release([grant])
      return released
    }
    const { instanceId, leaseTtlMs, refreshMs } = this.#settings
    const { sessionId } = grant
    const ttlMs = Math.min(leaseTtlMs, refreshMs)
    const channel = this.#keys.transfers(to.instanceId)
    const message = `${sessionId} ${instanceId}`
    const sender = [instanceId, grant.token]
    // On a Cluster the receiver may be subscribed on another server than the one that counts subscribers.
    const isSubscribed = this.#client.isCluster ? '1' : '0'
    const receiver = [to.instanceId, String(ttlMs), channel, message]
    const args = [...sender, ...receiver, this.#keys.changed, isSubscribed]
    const keys = this.#keysOf(sessionId)
    const [reply] = await this.#evaluate([{ script: SCRIPTS.transfer, keys, args }])
    return grantReply(reply, reply)
  }

  /**
   * Our instances are in a set, which each updates with its heartbeat. Foreign ones are found by SCAN: all pages at
   * first, then a few at each read, so that a read costs the same however many sessions there are.
   */
  async nodes(): Promise<NodeView> {
    const { instanceId } = this.#settings
    const [[listed]] = await Promise.all([
      this.#ask([['SMEMBERS', this.#keys.nodes]]),
      this.#scanSome(),
    ])
    const ours = listOf(listed).map(String)
    const ids = [...new Set([instanceId, ...ours, ...this.#scanned])]
    const facts = await this.#factsOf(ids)
    const size = FACT_COMMANDS.length
    const nodes = ids.map((id, at) => nodeOf(id, facts.slice(size * at, size * (at + 1))))
    const isThere = nodes.filter(({ expiresInMs }) => expiresInMs > 0)
    const silent = nodes.filter(({ expiresInMs }) => !(expiresInMs > 0))
    for (const node of isThere) this.#noteTtl(node)
    this.#hidden = silent.filter(({ isForeign }) => !isForeign)
    await this.#forget(
      silent.filter(({ isForeign }) => isForeign),
      ours,
    )
    return { nodes: isThere, isSelfDraining: nodes[0]?.isDraining === true }
  }

  /** Never lowered: an instance may be missing from a view because the server has lost its data. */
  #noteTtl({ isForeign, leaseTtlMs }: FleetNode): void {
    const ttlMs = leaseTtlMs ?? (isForeign ? LEASE_TTL_MS_DEFAULT : 0)
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs)
  }

  /** PTTL of the heartbeat, weight, name, TTL and drain of each, in one list. */
  async #factsOf(ids: readonly string[]): Promise<readonly unknown[]> {
    const keys = ids.map((id) => NODE_KEYS.map((kind) => this.#keys.of(kind, id)))
    if (this.#client.isCluster) {
      const commands = keys.flatMap((own) => {
        return FACT_COMMANDS.map((name, index) => [name, own[index] ?? ''])
      })
      return this.#ask(commands)
    }
    const [reply] = await this.#evaluate([{ script: SCRIPTS.nodes, keys: keys.flat(), args: [] }])
    if (reply instanceof Error) throw refusedError(reply)
    if (!Array.isArray(reply)) throw malformed('nodes', reply)
    return reply
  }

  async heartbeat(isPublished: boolean): Promise<void> {
    const { instanceId, heartbeatTtlMs, leaseTtlMs, weight, name } = this.#settings
    const ttl = ['PX', String(heartbeatTtlMs)]
    const set = (kind: 'weight' | 'name' | 'ttl' | 'node', value: string): readonly string[] => {
      return ['SET', this.#keys.of(kind, instanceId), value, ...ttl]
    }
    const named = name === null ? [] : [set('name', name)]
    const facts = [set('weight', String(weight)), ...named, set('ttl', String(leaseTtlMs))]
    const commands = [...facts, ['SADD', this.#keys.nodes, instanceId]]
    if (!isPublished) return void (await this.#ask(commands))
    // Last, so that an instance that finds the heartbeat finds the weight, and does not take this one for a foreign one.
    const heartbeat = [...set('node', '1'), 'GET']
    // The servers of a Cluster carry out concurrent commands in any order.
    if (this.#client.isCluster) await this.#ask(commands.splice(0))
    const replies = await this.#ask([...commands, heartbeat])
    if (replies.at(-1) === null) await this.#announce()
  }

  async unpublish(): Promise<void> {
    const { instanceId } = this.#settings
    await this.#ask([['DEL', this.#keys.of('node', instanceId)]])
    await this.#announce()
  }

  async unsubscribe(): Promise<void> {
    await this.#client.unsubscribe()
  }

  async leave(): Promise<void> {
    const { instanceId } = this.#settings
    const removals = NODE_KEYS.map((kind) => ['DEL', this.#keys.of(kind, instanceId)])
    await this.#ask([...removals, ['SREM', this.#keys.nodes, instanceId]])
    await this.#announce()
  }

  async drain(instanceId: string, isWanted: boolean): Promise<void> {
    const key = this.#keys.of('drain', instanceId)
    await this.#ask([isWanted ? ['SET', key, '1', 'PX', String(DRAIN_TTL_MS)] : ['DEL', key]])
    await this.#announce()
  }

  async survey(): Promise<Survey> {
    const [keys, drains] = await Promise.all([this.#scanAll('lease'), this.#scanAll('drain')])
    const replies = await this.#ask(
      keys.flatMap((key) => [
        ['GET', key],
        ['PTTL', key],
      ]),
    )
    const owned = keys.flatMap((key, index): readonly OwnedRow[] => {
      const [owner, leftMs] = replies.slice(2 * index, 2 * index + 2)
      if (typeof owner !== 'string') return []
      const remainingMs = Number(leftMs) < 0 ? null : Number(leftMs)
      return [{ sessionId: this.#keys.idIn('lease', key), owner, remainingMs, ttlMs: null }]
    })
    const draining = drains.map((key) => this.#keys.idIn('drain', key))
    return { owned, draining, hidden: this.#hidden }
  }

  async close(): Promise<void> {
    this.#client.close()
  }

  async #announce(): Promise<void> {
    await this.#ask([['PUBLISH', this.#keys.changed, this.#settings.instanceId]])
  }

  /** All pages at first, then a few from where the last read ended. */
  async #scanSome(): Promise<void> {
    const isFirst = this.#scan === null
    let place = this.#scan ?? SCAN_START
    for (let page = 0; isFirst || page < SCAN_PAGES_MAX; page += 1) {
      const { next, keys } = await this.#scanPage('node', place)
      for (const key of keys) this.#scanned.add(this.#keys.idIn('node', key))
      place = next ?? SCAN_START
      if (next === null) break
    }
    this.#scan = place
  }

  /** Removes dead instances of ours from the set. One that lives is back with its next heartbeat. */
  async #forget(gone: readonly FleetNode[], listed: readonly string[]): Promise<void> {
    for (const { instanceId } of gone) this.#scanned.delete(instanceId)
    const dead = gone.map(({ instanceId }) => instanceId).filter((id) => listed.includes(id))
    if (dead.length > 0) await this.#ask([['SREM', this.#keys.nodes, ...dead]])
  }

  async #scanAll(kind: 'lease' | 'drain'): Promise<readonly string[]> {
    const found = new Set<string>()
    for (let place: ScanPlace | null = SCAN_START; place !== null;) {
      const page: ScanPage = await this.#scanPage(kind, place)
      for (const key of page.keys) found.add(key)
      place = page.next
    }
    return [...found]
  }

  /** One page of one server; when that has no more, the next server of a Cluster follows. */
  async #scanPage(kind: 'lease' | 'node' | 'drain', place: ScanPlace): Promise<ScanPage> {
    const count = this.#client.masters
    // A Cluster that has lost a server meanwhile is scanned from the beginning.
    const { master, cursor } = place.master < count ? place : SCAN_START
    const pattern = this.#keys.of(kind, '*')
    const scan = ['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(SCAN_COUNT)]
    const reply = await this.#client.sendTo(master, scan)
    if (reply instanceof Error) throw refusedError(reply)
    const [next, keys] = listOf(reply)
    if (!Array.isArray(keys)) throw malformed('SCAN', reply)
    const texts = keys.map(String)
    if (String(next) !== '0') return { next: { master, cursor: String(next) }, keys: texts }
    return { next: master + 1 < count ? { master: master + 1, cursor: '0' } : null, keys: texts }
  }

  /** In scripts of a thousand each, all sent together; on a Cluster in scripts of one. */
  async #forEach(
    grants: readonly Grant[],
    callFor: (batch: readonly Grant[]) => ScriptCall,
  ): Promise<readonly GrantReply[]> {
    const size = this.#client.isCluster ? 1 : SCRIPT_GRANTS_MAX
    const replies = await this.#evaluate([...batchesOf(grants, size)].map(callFor))
    return grants.map((_, index) => {
      const reply = replies[Math.floor(index / size)]
      return grantReply(reply, Array.isArray(reply) ? reply[index % size] : reply)
    })
  }

  #keysOf(sessionId: string): readonly string[] {
    return [this.#keys.of('lease', sessionId), this.#keys.fence(sessionId)]
  }

  /** Throws if the server refuses one of the commands. */
  async #ask(commands: readonly PollCommand[]): Promise<readonly PollReply[]> {
    const replies = await this.#client.send(commands)
    const refused = replies.find((reply) => reply instanceof Error)
    if (refused instanceof Error) throw refusedError(refused)
    return replies
  }

  /** Runs scripts by their digest; a script that the server does not know has not run, and is sent in full. */
  async #evaluate(calls: readonly ScriptCall[]): Promise<readonly PollReply[]> {
    try {
      const replies = await this.#client.send(calls.map((call) => scriptCommand('EVALSHA', call)))
      const unknown = calls.filter((_, index) => isNoScript(replies[index]))
      if (unknown.length === 0) return replies
      const again = [
        ...(await this.#client.send(unknown.map((call) => scriptCommand('EVAL', call)))),
      ]
      return replies.map((reply) => (isNoScript(reply) ? again.shift() : reply))
    } catch (error) {
      const failure = asLeaseError(error)
      return calls.map(() => failure)
    }
  }
}

/** In the order of the answer of the script `nodes`. */
const FACT_COMMANDS = ['PTTL', 'GET', 'GET', 'GET', 'EXISTS'] as const

/** The position of a SCAN: the server, and the cursor there. */
interface ScanPlace {
  readonly master: number
  readonly cursor: string
}

interface ScanPage {
  /** Null: that was the last. */
  readonly next: ScanPlace | null
  readonly keys: readonly string[]
}

const SCAN_START: ScanPlace = { master: 0, cursor: '0' }

/** Some drivers return a `Set` for the RESP3 type set. */
function listOf(reply: PollReply): readonly unknown[] {
  if (reply instanceof Set) return [...reply]
  return Array.isArray(reply) ? reply : []
}

/** The data is not that of the server's run. */
function needsHandshake(reply: PollReply): boolean {
  return Array.isArray(reply) && reply[0] === 3
}

interface AcquireCall {
  readonly sessionId: string
  readonly instanceId: string
}

function acquireReply({ sessionId, instanceId }: AcquireCall, reply: PollReply): AcquireReply {
  if (reply instanceof Error) return { kind: 'failed', error: refusedError(reply) }
  if (!Array.isArray(reply)) return { kind: 'failed', error: malformed('acquire', reply) }
  const [code, text, leftMs] = reply as readonly unknown[]
  if (code === 1 || code === 2) {
    const token = String(text)
    const id = leaseIdOf([instanceId, sessionId, token])
    return { kind: 'acquired', sessionId, fence: Number(token), id, token, wasOurs: code === 2 }
  }
  if (code === 4) return { kind: 'grace_period', freeInMs: Number(text) }
  // Lost once more, right after the handshake.
  if (code === 3) return { kind: 'failed', error: dataLostError(0) }
  if (code !== 0) return { kind: 'failed', error: malformed('acquire', reply) }
  const freeInMs = Number(leftMs)
  return { kind: 'held', owner: String(text), freeInMs: freeInMs < 0 ? null : freeInMs }
}

/**
 * The keys of this layout have no lease ids. Guards need one that is the same whenever this instance has this fence, and
 * differs for any other instance: after a data loss two instances may get the same fence.
 */
function leaseIdOf(parts: readonly string[]): string {
  const hex = createHash('sha256').update(parts.join('\n')).digest('hex')
  const groups = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(12, 15)}`]
  return [...groups, `8${hex.slice(15, 18)}`, hex.slice(18, 30)].join('-')
}

function grantReply(reply: PollReply, code: unknown): GrantReply {
  if (reply instanceof Error) return { kind: 'failed', error: refusedError(reply) }
  if (code === 1) return { kind: 'done' }
  if (code === 0) return { kind: 'gone' }
  return { kind: 'failed', error: malformed('script', reply) }
}

function nodeOf(instanceId: string, facts: readonly PollReply[]): FleetNode {
  const [expiresInMs, weight, name, ttlMs, drain] = facts
  const isForeign = weight === null
  const share = Number(weight)
  return {
    instanceId,
    weight: !isForeign && share > 0 ? share : 1,
    name: typeof name === 'string' ? name : null,
    isForeign,
    isDraining: drain === 1,
    leaseTtlMs: Number(ttlMs) > 0 ? Number(ttlMs) : null,
    // A heartbeat without an expiry is a mistake of a foreign instance, and still a heartbeat.
    expiresInMs: expiresInMs === -1 ? Infinity : Number(expiresInMs),
  }
}

/** The server refused, so nothing was done. */
function refusedError(reply: Error): LeaseError {
  if (reply instanceof LeaseError) return reply
  return new LeaseError('STORE_UNAVAILABLE', `Redis refused: ${reply.message}`, { cause: reply })
}

function dataLostError(graceMs: number): LeaseError {
  const grace = `for ${graceMs} ms no instance takes a session that it did not own before`
  const message = `Redis has lost its data, or may have: ${grace}`
  return new LeaseError('STORE_UNAVAILABLE', message)
}

function malformed(what: string, reply: PollReply): LeaseError {
  const message = `Redis answered ${what} with ${typeof reply}, which is no valid answer`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message)
}
