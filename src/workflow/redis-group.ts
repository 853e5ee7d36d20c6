/**
 * A consumer group on a Redis stream, as one of its consumers sees it: the commands, and nothing about what to do when.
 *
 * Of the consumers of a group one at a time has the turn. Redis itself would deal the messages out to all of them, and
 * whoever is faster would pass the others: an action that comes after a later one is stale, and lost.
 */
import type { Runtime } from '../runtime/runtime.ts'
import { commandsOf, runScript, type RedisCommand } from '../guard/redis-client.ts'
import type { RedisBusClient } from './redis-bus.ts'

export interface GroupOptions {
  readonly stream: string
  readonly group: string
  readonly lengthMax: number
  /** How long a turn lasts without a sign of life. */
  readonly turnMs: number
  readonly runtime: Runtime
}

export interface Entry {
  readonly id: string
  readonly text: string
}

const READ_COUNT = 100
/** A consumer that has not been heard of for so long, and has nothing pending, is gone. */
const GONE_MS = 3_600_000

/** Takes the turn, or keeps it: 2 if it is new, 1 if it was one's own already, 0 if another has it. */
const TAKE_TURN = `local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 1 or 2`
const END_TURN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`
/** In one script, because a consumer that takes something between the look and the removal would lose it. */
const FORGET_CONSUMERS = `for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local found = {}
  for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
  local over = found.name == ARGV[2] or found.idle > tonumber(ARGV[3])
  if found.pending == 0 and over then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], found.name)
  end
end
return 1`

export class RedisGroup {
  readonly #options: GroupOptions
  readonly #command: RedisCommand
  readonly #name: string
  #turnUntilMs = 0

  constructor(connection: RedisBusClient, options: GroupOptions) {
    this.#options = options
    this.#command = commandsOf(connection)
    this.#name = options.runtime.uuid()
  }

  async create(): Promise<void> {
    const { stream, group } = this.#options
    try {
      await this.#command(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM'])
    } catch (error) {
      if (!String(error).includes('BUSYGROUP')) throw error
    }
  }

  /** By this process's own clock, from before it asked. */
  get hasTurn(): boolean {
    return this.#options.runtime.monotonicMs() < this.#turnUntilMs
  }

  async takeTurn(): Promise<'taken' | 'kept' | 'refused'> {
    const { turnMs, runtime } = this.#options
    const askedMs = runtime.monotonicMs()
    const args = [this.#name, String(turnMs)]
    const answer = await this.#run(TAKE_TURN, this.#turnKey, args)
    const isMine = Number(answer) > 0
    this.#turnUntilMs = isMine ? askedMs + turnMs : 0
    if (!isMine) return 'refused'
    return Number(answer) === 2 ? 'taken' : 'kept'
  }

  /** Leaves the turn to others, and nothing behind. */
  async leave(): Promise<void> {
    this.#turnUntilMs = 0
    await this.#run(END_TURN, this.#turnKey, [this.#name])
    await this.forgetConsumers()
  }

  async forgetConsumers(): Promise<void> {
    const { stream, group } = this.#options
    await this.#run(FORGET_CONSUMERS, stream, [group, this.#name, String(GONE_MS)])
  }

  /** Everything that was delivered to anybody of the group and not acknowledged, in the order of the stream. */
  async claimPending(): Promise<readonly Entry[]> {
    const { stream, group } = this.#options
    const entries: Entry[] = []
    for (let from = '0-0'; ;) {
      const range = [from, 'COUNT', String(READ_COUNT)]
      const reply = await this.#command(['XAUTOCLAIM', stream, group, this.#name, '0', ...range])
      const [next, found] = reply as readonly unknown[]
      entries.push(...entriesOf(found))
      from = String(next)
      if (from === '0-0') return entries
    }
  }

  async deliveriesOf(id: string): Promise<number> {
    const { stream, group } = this.#options
    const reply = await this.#command(['XPENDING', stream, group, id, id, '1'])
    const [pending] = reply as readonly (readonly [string, string, number, number])[]
    return Number(pending?.[3] ?? 0)
  }

  async readFresh(blockMs: number): Promise<readonly Entry[]> {
    const { stream, group } = this.#options
    const reply = await this.#command([
      ...['XREADGROUP', 'GROUP', group, this.#name, 'COUNT', String(READ_COUNT)],
      ...['BLOCK', String(Math.max(1, Math.ceil(blockMs))), 'STREAMS', stream, '>'],
    ])
    return streamEntries(reply)
  }

  async acknowledge(id: string): Promise<void> {
    const { stream, group } = this.#options
    await this.#command(['XACK', stream, group, id])
  }

  /** First kept as a dead letter, then acknowledged: twice is better than never. */
  async bury({ id, text }: Entry, reason: string): Promise<void> {
    const { stream, group, lengthMax } = this.#options
    const fields = ['target', group, 'reason', reason, 'message', text]
    const limit = ['MAXLEN', '~', String(lengthMax)]
    await this.#command(['XADD', `${stream}:dead`, ...limit, '*', ...fields])
    await this.acknowledge(id)
  }

  get #turnKey(): string {
    const { stream, group } = this.#options
    return `${stream}:turn:${group}`
  }

  #run(script: string, key: string, args: readonly string[]): Promise<unknown> {
    return runScript(this.#command, { script, keys: [key], args })
  }
}

/**
 * The entries of the only stream that was asked for: a list of pairs in the second version of the protocol, in the
 * third a map, of which some clients make an object and others a flat list.
 */
function streamEntries(reply: unknown): readonly Entry[] {
  if (reply === null || typeof reply !== 'object') return []
  if (!Array.isArray(reply)) return entriesOf(Object.values(reply)[0])
  const [first, second] = reply as readonly unknown[]
  return entriesOf(Array.isArray(first) ? first[1] : second)
}

/** An entry that was trimmed away meanwhile has no fields, and is left out. */
function entriesOf(reply: unknown): readonly Entry[] {
  if (!Array.isArray(reply)) return []
  return (reply as readonly (readonly [string, readonly string[] | null] | null)[]).flatMap(
    (entry) => {
      if (entry === null || entry[1] === null) return []
      const [id, fields] = entry
      const at = fields.indexOf('message')
      return [{ id, text: at < 0 ? '' : (fields[at + 1] ?? '') }]
    },
  )
}
