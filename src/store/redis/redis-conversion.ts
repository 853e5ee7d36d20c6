/**
 * Converts namespaces at the first opening by this version. One of layout 5 gets another number and is used as it is: its buckets
 * are taken over one by one (`MAKE_BUCKET_SCRIPT`), and what is committed under the number of before until then can be read. One
 * of layout 4 kept ended entries beside live ones:
 *
 * 1. The number of the layout changes, so that no process of the old version opens the namespace any more.
 * 2. Of every bucket the keys of layout 4 are renamed, and a text is put where its scripts expect a hash: from then on every
 *    commit of a running process of the old version fails before it writes.
 * 3. Bucket by bucket the ledger, what is live, and the marks are written anew. Positions stay what they were.
 * 4. A bucket gets its state, with which it can be used, and its old keys go.
 *
 * A process that is killed in the middle leaves the namespace unusable and complete: the next to open it begins again at step 2.
 * Each step gives the same when it is done twice, and no conversion writes to a bucket that has its state. So two processes that
 * convert at once do no harm, also when one of them is stopped until the other is done; a lock keeps most from trying.
 */
import { LeaseError } from '../../core/errors.ts'
import { isLive, type LeaseId } from '../../core/lease.ts'
import { isTree } from '../../core/resource.ts'
import type { RedisCalls } from '../../drivers/redis-driver.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import {
  DAY_MS,
  declaredKeys,
  EVENTS_PER_ROW,
  LAYOUT_VERSION,
  MONTH_DAYS,
  newStateText,
  OLD_LAYOUT_VERSION,
} from './redis-layout.ts'
import {
  createdOf,
  liveUsOf,
  oldClaimsOf,
  oldEventOf,
  oldMarkOf,
  oldRealmOf,
  oldRecordOf,
  type OldRecord,
} from './redis-old-layout.ts'
import { entryText, eventText, msOf, wordOf, type EventText } from './redis-records.ts'

export interface ConversionOptions {
  readonly namespace: string
  /** In which it is. */
  readonly layout: number
  /** The key of the namespace's own facts. */
  readonly meta: string
  readonly prefixes: readonly string[]
  readonly runtime: Runtime
  /** Also while leases are live, whose holders then lose them. */
  readonly force: boolean
}

const PAGE = 500
const LOCK_MS = 60_000
/** Keys of layout 4 that have one name in every bucket. */
const OLD_KEYS = ['e', 'l', 'j', 'k', 'c', 'u', 't', 'o', 'd', 'i', 'g'] as const
/** Those that stay as they are, by another name. */
const RENAMED = { t: 'tree', i: 'unrecorded', g: 'settings' } as const

const SET_ASIDE = `#!lua
if redis.call('TYPE', KEYS[1] .. ':e').ok ~= 'string' then
  for _, name in ipairs(ARGV) do
    if redis.call('EXISTS', KEYS[1] .. ':' .. name) == 1 then
      redis.call('RENAME', KEYS[1] .. ':' .. name, KEYS[1] .. ':old:' .. name)
    end
  end
  redis.call('DEL', KEYS[1] .. ':p')
  redis.call('SET', KEYS[1] .. ':e', 'layout ${LAYOUT_VERSION}')
end
return 1
`

/** A bucket that has its state is in use: what a slower process still has to write must not come back there. */
const UNLESS_DONE = `#!lua
if redis.call('HEXISTS', KEYS[2], 'state') == 1 then return 0 end
`

const ADD_ROWS = `${UNLESS_DONE}
for _, row in ipairs(cjson.decode(ARGV[1])) do redis.call('XADD', KEYS[1] .. ':ledger', unpack(row)) end
return 1
`

/** ARGV: names of before, each followed by that of now. */
const RENAME = `${UNLESS_DONE}
for n = 1, #ARGV, 2 do
  local old = KEYS[1] .. ':old:' .. ARGV[n]
  if redis.call('EXISTS', old) == 1 then redis.call('RENAME', old, KEYS[1] .. ':' .. ARGV[n + 1]) end
end
return 1
`

/** ARGV: a command, its key, and the rest of it. */
const WRITE = `${UNLESS_DONE}
redis.call(ARGV[1], KEYS[1] .. ':' .. ARGV[2], unpack(ARGV, 3))
return 1
`

export async function convertNamespace(
  calls: RedisCalls,
  options: ConversionOptions,
): Promise<void> {
  const { namespace, meta, layout, prefixes, runtime, force } = options
  if (!force) await refuseLive(calls, options)
  const version = ['version', String(LAYOUT_VERSION)]
  if (layout !== OLD_LAYOUT_VERSION) {
    await calls.send(['HSET', meta, ...version], 'writes')
    return
  }
  const lock = meta.replace(/meta$/, 'converting')
  const token = runtime.uuid()
  const taken = await calls.send(['SET', lock, token, 'NX', 'PX', String(LOCK_MS)], 'writes')
  if (taken === null) {
    const message = `namespace ${namespace} is being converted by another process: try again`
    throw new LeaseError('STORE_UNAVAILABLE', message)
  }
  try {
    await calls.send(['HSET', meta, ...version, 'conversion', token], 'writes')
    await calls.send(['HDEL', meta, 'converting'], 'writes')
    await calls.send(['HSETNX', meta, 'incarnation', runtime.uuid()], 'writes')
    const incarnation = String(await calls.send(['HGET', meta, 'incarnation'], 'reads'))
    for (const prefix of prefixes) {
      await calls.send(['EVAL', SET_ASIDE, '2', ...declaredKeys(prefix), ...OLD_KEYS], 'writes')
    }
    const identity = `${LAYOUT_VERSION}/${prefixes.length}/${incarnation}`
    const goOn = async (): Promise<void> => {
      await calls.send(['SET', lock, token, 'PX', String(LOCK_MS)], 'writes')
    }
    for (const prefix of prefixes) await new BucketConversion(calls, prefix, goOn).run(identity)
    await calls.send(['HDEL', meta, 'conversion'], 'writes')
  } finally {
    await calls.send(['DEL', lock], 'writes')
  }
}

/** A holder of the old version could not renew what is converted. */
async function refuseLive(
  calls: RedisCalls,
  { prefixes, namespace, layout }: ConversionOptions,
): Promise<void> {
  const [seconds, rest] = (await calls.send(['TIME'], 'reads')) as readonly string[]
  const nowUs = Number(seconds) * 1_000_000 + Number(rest)
  const countOf = layout === OLD_LAYOUT_VERSION ? oldLiveCount : liveCount
  const counts = await Promise.all(prefixes.map((prefix) => countOf(calls, prefix, nowUs)))
  const live = counts.reduce((sum, count) => sum + count, 0)
  if (live === 0) return
  const message = `namespace ${namespace} has ${live} live leases and tickets in layout ${layout}, whose holders would lose them by its conversion: stop those processes and release or wait, or convert all the same with tenure doctor --convert`
  throw new LeaseError('STORE_SCHEMA', message, {
    details: { supported: LAYOUT_VERSION, found: layout },
  })
}

async function liveCount(calls: RedisCalls, prefix: string, nowUs: number): Promise<number> {
  return Number(await calls.send(['ZCOUNT', `${prefix}:due`, `(${nowUs}`, '+inf'], 'reads'))
}

/** Of one page; the deadlines by which entries of layout 4 were listed may be too early. */
async function oldLiveCount(calls: RedisCalls, prefix: string, nowUs: number): Promise<number> {
  const command = ['ZRANGEBYSCORE', `${prefix}:d`, '1', '+inf', 'LIMIT', '0', String(PAGE)]
  const ids = (await calls.send(command, 'reads')) as readonly string[]
  const heads = await hashValues(calls, `${prefix}:e`, ids)
  return heads.filter((head) => head !== null && liveUsOf(head) > nowUs).length
}

async function hashValues(
  calls: RedisCalls,
  key: string,
  fields: readonly string[],
): Promise<readonly (string | null)[]> {
  if (fields.length === 0) return []
  return (await calls.send(['HMGET', key, ...fields], 'reads')) as readonly (string | null)[]
}

/** Where the ledger tells of a lease, and what a request of the same id did last. */
interface KnownSpan {
  first?: number
  last?: number
  prior?: number
}

interface OldEvent {
  readonly position: number
  readonly text: string
}

interface OldRow {
  readonly id: string
  readonly events: readonly OldEvent[]
}

class BucketConversion {
  readonly #calls: RedisCalls
  readonly #prefix: string
  readonly #goOn: () => Promise<void>
  readonly #known = new Map<string, KnownSpan>()
  /** Of all entries that have any, so that each is asked for once. */
  readonly #created = new Map<string, number | null>()

  constructor(calls: RedisCalls, prefix: string, goOn: () => Promise<void>) {
    this.#calls = calls
    this.#prefix = prefix
    this.#goOn = goOn
  }

  async run(identity: string): Promise<void> {
    if (!(await this.#isDone())) {
      try {
        await this.#convert(identity)
      } catch (error) {
        // What another process has ended meanwhile is no failure of this one.
        if (!(await this.#isDone())) throw error
      }
    }
    for (const name of OLD_KEYS) await this.#send('UNLINK', `old:${name}`)
  }

  async #isDone(): Promise<boolean> {
    return (await this.#send('HEXISTS', 'live', 'state')) === 1
  }

  async #convert(identity: string): Promise<void> {
    await this.#measure()
    await this.#convertRows()
    await this.#writeKnown()
    await this.#convertLive()
    await this.#convertRealms()
    const marks = await this.#convertMarks()
    await this.#run(RENAME, ...Object.entries(RENAMED).flat())
    const old = await this.#oldState()
    await this.#removeIdle(old)
    const { last, high, revision } = old
    const state = { identity, last, high, revision, floor: '0', ...marks }
    await this.#write('HSET', 'live', 'state', newStateText(state))
  }

  /** The lists of realms that were left idle on a day. */
  async #removeIdle({ idleDay, high }: OldState): Promise<void> {
    const today = Number(high) / (DAY_MS * 1_000)
    for (let day = Number(idleDay); day > 0 && day <= today; day += 1) {
      await this.#send('UNLINK', `y:${day}`)
    }
  }

  #key(name: string): string {
    return `${this.#prefix}:${name}`
  }

  #send(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return this.#calls.send([command, this.#key(key), ...args], 'writes')
  }

  #write(command: string, key: string, ...args: readonly string[]): Promise<void> {
    return this.#run(WRITE, command, key, ...args)
  }

  async #run(script: string, ...args: readonly string[]): Promise<void> {
    const command = ['EVAL', script, '2', ...declaredKeys(this.#prefix), ...args]
    if ((await this.#calls.send(command, 'writes')) === 1) return
    throw new Error(`${this.#prefix} was converted by another process`)
  }

  async #values(key: string, fields: readonly string[]): Promise<readonly (string | null)[]> {
    return hashValues(this.#calls, this.#key(key), fields)
  }

  /** Events of which nothing could be seen any more are left out. */
  async *#rows(): AsyncGenerator<readonly OldRow[]> {
    for (let from = '-'; ;) {
      await this.#goOn()
      const reply = await this.#send('XRANGE', 'old:l', from, '+', 'COUNT', String(PAGE))
      const rows = reply as readonly (readonly [id: string, events: readonly string[]])[]
      const ids = new Set(rows.flatMap(([, events]) => events.map((text) => text.slice(0, 36))))
      await this.#learn([...ids].filter((id) => id !== '' && !this.#created.has(id)))
      yield rows.map(([id, events]) => ({ id, events: this.#visible(id, events) }))
      const last = rows.at(-1)
      if (last === undefined || rows.length < PAGE) return
      from = `(${last[0]}`
    }
  }

  async #learn(ids: readonly string[]): Promise<void> {
    const heads = await this.#values('old:e', ids)
    ids.forEach((id, at) => {
      const head = heads[at] ?? null
      this.#created.set(id, head === null ? null : createdOf(head))
    })
  }

  #visible(row: string, events: readonly string[]): readonly OldEvent[] {
    const first = Number(row.split('-')[0])
    return events.flatMap((text, distance) => {
      const position = first + distance
      const created = this.#created.get(text.slice(0, 36)) ?? null
      return text === '' || created === null || created >= position ? [] : [{ position, text }]
    })
  }

  #spanOf(id: string): KnownSpan {
    const known = this.#known.get(id) ?? {}
    this.#known.set(id, known)
    return known
  }

  async #measure(): Promise<void> {
    for await (const rows of this.#rows()) {
      for (const { position, text } of rows.flatMap(({ events }) => events)) {
        const span = this.#spanOf(text.slice(0, 36))
        span.first ??= position
        span.last = position
      }
    }
  }

  async #convertRows(): Promise<void> {
    const [last] = (await this.#send('XREVRANGE', 'ledger', '+', '-', 'COUNT', '1')) as [string][]
    const done = Number(last?.[0].split('-')[0] ?? 0)
    for await (const rows of this.#rows()) {
      const records = await this.#recordsOf(rows)
      const all = rows.flatMap(({ events }) => rowsOf(events))
      const converted = all.flatMap(([first, ...others]) => {
        const row = first.position
        const fields = [first, ...others].flatMap((event) => this.#converted(event, row, records))
        return row > done ? [[String(row), ...fields]] : []
      })
      await this.#run(ADD_ROWS, JSON.stringify(converted))
    }
  }

  /** The entries of the events, with the body that each had at first. */
  async #recordsOf(rows: readonly OldRow[]): Promise<ReadonlyMap<string, OldEntry>> {
    const texts = rows.flatMap(({ events }) => events.map(({ text }) => text.slice(0, 36)))
    const ids = [...new Set(texts)]
    const [heads, bodies, firsts] = await Promise.all(
      ['old:e', 'old:j', 'old:k'].map((key) => this.#values(key, ids)),
    )
    return new Map(
      ids.map((id, at) => {
        const [head, body] = [heads?.[at] ?? '', bodies?.[at] ?? '']
        return [id, { record: oldRecordOf(id, head, body), firstBody: firsts?.[at] ?? body }]
      }),
    )
  }

  #converted(
    { position, text }: OldEvent,
    row: number,
    records: ReadonlyMap<string, OldEntry>,
  ): readonly string[] {
    const id = text.slice(0, 36)
    const kept = records.get(id)
    if (kept === undefined) throw new Error(`the ledger tells of ${id}, and nothing is kept of it`)
    const event = oldEventOf(text, kept.firstBody)
    const { entry, version } = kept.record
    const ended = !isLive(entry) && this.#spanOf(id).last === position ? entry : null
    if (event.requestId !== null) this.#spanOf(event.requestId).prior = position
    const words = { ...eventText({ event, ended }), version: ended === null ? '0' : version }
    if (ended !== null) this.#ended.add(ended.id)
    return [String(position - row), placedEventText(id, position, words)]
  }

  readonly #ended = new Set<string>()

  async #writeKnown(): Promise<void> {
    const fields = [...this.#known].flatMap(([id, { first, last, prior }]) => {
      const isEnded = this.#ended.has(id) && first !== undefined && last !== undefined
      const span = isEnded ? `${first} ${last - first}` : ''
      const text = `${span}${prior === undefined ? '' : `@${prior}`}`
      return text === '' ? [] : [[id, text] as const]
    })
    await this.#inPages(fields, (some) => this.#write('HSET', 'known', ...some.flat()))
  }

  async #inPages<Item>(
    items: readonly Item[],
    send: (some: readonly Item[]) => Promise<unknown>,
  ): Promise<void> {
    for (let at = 0; at < items.length; at += PAGE) {
      await send(items.slice(at, at + PAGE))
      await this.#goOn()
    }
  }

  readonly #subtrees = new Set<string>()

  async #convertLive(): Promise<void> {
    const ids = (await this.#send('ZRANGEBYSCORE', 'old:d', '1', '+inf')) as readonly string[]
    await this.#inPages(ids, async (some) => {
      const [heads, bodies] = await Promise.all([
        this.#values('old:e', some),
        this.#values('old:j', some),
      ])
      const records = some.flatMap((id, at) => {
        const [head, body] = [heads[at] ?? null, bodies[at] ?? null]
        return head === null || body === null ? [] : [oldRecordOf(id, head, body)]
      })
      if (records.length > 0) await this.#putLive(records.filter(({ entry }) => isLive(entry)))
    })
  }

  async #putLive(records: readonly OldRecord[]): Promise<void> {
    const texts: string[] = []
    const due: string[] = []
    for (const { entry, version, claim, created } of records) {
      if (isTree(entry.resource) && entry.extent === 'subtree') this.#subtrees.add(entry.id)
      const { fence, untilUs, text } = entryText(entry)
      texts.push(entry.id, [version, claim, fence, untilUs, created, text].join(' '))
      due.push(String(untilUs), entry.id)
    }
    await this.#write('HSET', 'live', ...texts)
    await this.#write('ZADD', 'due', ...due)
  }

  #claimsText(claims: string): string {
    return oldClaimsOf(claims)
      .map(([id, claim]) => `${id} ${claim}${this.#subtrees.has(id) ? 's' : 'e'} `)
      .join('')
  }

  async #convertRealms(): Promise<void> {
    await this.#copyFields('old:e', 'live', (name, value) => {
      if (!name.includes(':')) return null
      const { wallMs, fence, tickets, claims } = oldRealmOf(value)
      return `${wallMs} ${fence} ${tickets} ${this.#claimsText(claims)}`
    })
    await this.#copyFields('old:e', 'epochs', (name, value) => {
      const epoch = name.includes(':') ? oldRealmOf(value).epoch : 0
      return epoch > 0 ? String(epoch) : null
    })
    await this.#copyFields('old:c', 'live', (_, claims) => `0 0 0 ${this.#claimsText(claims)}`)
    await this.#copyFields('old:o', 'epochs', (_, epoch) => String(Number(epoch)))
  }

  /** Fields of one hash into another, but for those that become null. Tells whether there were any. */
  async #copyFields(
    from: string,
    to: string,
    convert: (field: string, value: string) => string | null,
  ): Promise<boolean> {
    let some = false
    for await (const fields of this.#fieldsOf(from)) {
      const converted = fields.flatMap(([field, value]) => {
        const text = convert(field, value)
        return text === null ? [] : [field, text]
      })
      if (converted.length === 0) continue
      await this.#write('HSET', to, ...converted)
      some = true
    }
    return some
  }

  /** Of requests without an event in the ledger. The old marks expire by themselves. */
  async #convertMarks(): Promise<{ readonly markDay: string; readonly markMonth: string }> {
    const { high } = await this.#oldState()
    const day = Math.floor(Number(high) / (DAY_MS * 1_000))
    const month = Math.floor(day / MONTH_DAYS)
    const days = await this.#copyMarks([`q:${day - 1}`, `q:${day}`], `marks:${day}`)
    const months = await this.#copyMarks([`Q:${month - 1}`, `Q:${month}`], `months:${month}`)
    if (days) await this.#write('PEXPIRE', `marks:${day}`, String(3 * DAY_MS))
    if (months) await this.#write('PEXPIRE', `months:${month}`, String(3 * MONTH_DAYS * DAY_MS))
    return { markDay: days ? String(day) : '0', markMonth: months ? String(month) : '0' }
  }

  async #copyMarks(from: readonly string[], to: string): Promise<boolean> {
    let some = false
    for (const key of from) {
      const copied = await this.#copyFields(key, to, (_, text) => {
        const mark = oldMarkOf(text)
        return mark && `${mark.leaseId} ${wordOf(mark.type)} ${mark.keepUntilMs}`
      })
      some ||= copied
    }
    return some
  }

  async *#fieldsOf(key: string): AsyncGenerator<readonly (readonly [string, string])[]> {
    let cursor = '0'
    do {
      await this.#goOn()
      const reply = await this.#send('HSCAN', key, cursor, 'COUNT', String(PAGE))
      const [next, pairs] = reply as readonly [string, readonly string[]]
      const fields: [string, string][] = []
      for (let at = 0; at + 1 < pairs.length; at += 2) {
        fields.push([pairs[at] ?? '', pairs[at + 1] ?? ''])
      }
      yield fields
      cursor = next
    } while (cursor !== '0')
  }

  async #oldState(): Promise<OldState> {
    const text = ((await this.#send('HGET', 'old:e', 'state')) ?? '') as string
    const numberAt = (from: number, to?: number): string => String(Number(text.slice(from, to)))
    return {
      ...{ last: numberAt(0, 16), high: numberAt(16, 32), revision: numberAt(62) },
      idleDay: numberAt(42, 52),
    }
  }
}

/** As the script of commits writes an event, for one that is written at a position by a conversion. */
export function placedEventText(
  id: LeaseId,
  position: number,
  { version, fence, atMs, text }: EventText & { readonly version: string },
): string {
  return [id, fence === 0 ? '-' : position - fence, msOf(position) - atMs, version, text].join(' ')
}

/** Rows as this layout has them: their events are near to each other. */
function rowsOf(events: readonly OldEvent[]): readonly (readonly [OldEvent, ...OldEvent[]])[] {
  const rows: [OldEvent, ...OldEvent[]][] = []
  for (const event of events) {
    const last = rows.at(-1)
    const isNear = last !== undefined && event.position - last[0].position < EVENTS_PER_ROW
    if (isNear) last.push(event)
    else rows.push([event])
  }
  return rows
}

interface OldEntry {
  readonly record: OldRecord
  readonly firstBody: string
}

interface OldState {
  readonly last: string
  readonly high: string
  readonly revision: string
  readonly idleDay: string
}
