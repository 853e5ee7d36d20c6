/**
 * Instances that share sessions: who is there, how much each has, and how sessions moved. With leases `node:ID` says who is
 * there, `session:ID` who polls what, `drain:ID` who should be empty; a fleet on keys of polling services has no leases, and the
 * server reads its keys.
 */
import type { JSX } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import { readAnswer, type AnswerOf } from '../../protocol/answers.ts'
import { useFeed } from '../state/live-feed.ts'
import type { MarkName } from '../state/holds.ts'
import { Mark } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { TimeLeft } from '../parts/time-left.tsx'
import { countText, momentText, plural, visibleName } from '../parts/words.ts'
import { readHistory } from '../state/history.ts'
import { cutText, useAsked, type Asked } from '../state/questions.ts'
import { route } from '../state/route.ts'
import { pathWith, ProblemError } from '../wire/server-calls.ts'
import { Section } from './resource-view.tsx'
import type { LeaseInfo } from '../../core/lease.ts'
import { kindOf, nameOf, type Resource } from '../../core/resource.ts'
import type { LedgerRow } from '../wire/answers.ts'

const READ_AGAIN_MS = 5_000
const SESSIONS_SHOWN = 60
const REBALANCES_SHOWN = 20
const PAGES_MAX = 5

export function FleetView(): JSX.Element {
  const feed = useFeed()
  const version = feed.version.value
  const nodes = useMemo(() => nodesOf(feed.leases.all()), [version])
  const polled = usePollFleet()
  const polledNodes = polled.kind === 'answered' ? pollNodesOf(polled.answer) : []
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Fleet</h1>
        <p class="dim">{sizeText(nodes)}</p>
      </header>
      {nodes.length + polledNodes.length === 0 ? (
        <p class="empty">
          No fleet runs on this store. <code>tenure fleet run</code> starts an instance of one.
        </p>
      ) : null}
      <Nodes nodes={nodes} />
      {polled.kind === 'refused' ? <p class="problem">{polled.problem}</p> : null}
      {polledNodes.length === 0 ? null : (
        <Section title={`On keys of polling services: ${sizeText(polledNodes)}`}>
          <Nodes nodes={polledNodes} />
        </Section>
      )}
      <Rebalances />
    </main>
  )
}

const NO_FLEET: AnswerOf<'fleet'> = { nodes: [], sessions: [] }

/** Where the store has such keys; their prefix is in the address, or the usual one. */
function usePollFleet(): Asked<AnswerOf<'fleet'>> {
  const feed = useFeed()
  const prefix = route.value.params.get('prefix') ?? 'poll'
  const version = Math.floor(feed.nowMs.value / READ_AGAIN_MS)
  const isElsewhere = useRef(false)
  return useAsked(`fleet ${prefix}`, version, async (signal) => {
    // A server that has none never will, and counts each question as a refusal.
    if (isElsewhere.current) return NO_FLEET
    const path = pathWith(`/v1/fleets/${encodeURIComponent(prefix)}`, { layout: 'poll' })
    try {
      return readAnswer('fleet', await feed.calls.json(path, { signal }))
    } catch (error) {
      isElsewhere.current = error instanceof ProblemError && [403, 404].includes(error.status)
      if (isElsewhere.current) return NO_FLEET
      throw error
    }
  }).value
}

function sizeText(nodes: readonly NodeLoad[]): string {
  const total = nodes.reduce((sum, { sessions }) => sum + sessions.length, 0)
  return `${plural(nodes.length, 'node')}, ${plural(total, 'session')}`
}

function Nodes({ nodes }: { nodes: readonly NodeLoad[] }): JSX.Element {
  const total = nodes.reduce((sum, { sessions }) => sum + sessions.length, 0)
  const ready = nodes.filter(({ state }) => state === 'ready')
  const weights = ready.reduce((sum, { weight }) => sum + weight, 0)
  return (
    <div class="cards">
      {nodes.map((node) => (
        <NodeCard
          key={node.id}
          node={node}
          fair={weights === 0 ? 0 : (total * node.weight) / weights}
        />
      ))}
    </div>
  )
}

const STATE_MARKS: Readonly<Record<NodeLoad['state'], MarkName>> = {
  ready: 'held',
  not_ready: 'offered',
  draining: 'revoking',
  silent: 'expired',
}

function NodeCard({ node, fair }: { node: NodeLoad; fair: number }): JSX.Element {
  const { id, name, state, weight, sessions, heartbeat } = node
  const load = fair === 0 ? 0 : sessions.length / fair
  return (
    <article class="card">
      <header>
        <Mark name={STATE_MARKS[state]} isSilent />
        <HolderLink name={id} />
        <span class="dim">{state.replace('_', ' ')}</span>
      </header>
      {name === null ? null : (
        <p class="words">
          <bdi>{visibleName(name)}</bdi>
        </p>
      )}
      <p class="load">
        <span class="figure">{countText(sessions.length)}</span> sessions
        <span class="dim">
          {state === 'ready' ? `, ${Math.round(load * 100)} % of its share` : ''}
          {weight === 1 ? '' : `, weight ${weight}`}
        </span>
      </p>
      <span class="share" aria-hidden="true">
        <span class="run" style={{ transform: `scaleX(${Math.min(1, load / 2)})` }} />
      </span>
      {state === 'silent' ? <p class="problem">No heartbeat</p> : null}
      {heartbeat === null ? null : (
        <p class="beat">
          <span class="dim">heartbeat</span> <TimeLeft lease={heartbeat} />
        </p>
      )}
      <p class="chips">
        {sessions.slice(0, SESSIONS_SHOWN).map(({ name: session, resource }) =>
          resource === null ? (
            <span class="resource" key={session}>
              <bdi>{visibleName(session)}</bdi>
            </span>
          ) : (
            <ResourceLink key={session} name={resource} label={session} />
          ),
        )}
        {sessions.length > SESSIONS_SHOWN ? (
          <span class="dim">and {countText(sessions.length - SESSIONS_SHOWN)} more</span>
        ) : null}
      </p>
    </article>
  )
}

function Rebalances(): JSX.Element | null {
  const feed = useFeed()
  const version = Math.floor(feed.nowMs.value / READ_AGAIN_MS)
  const past = useAsked('rebalances', version, (signal) => {
    return readHistory(feed.calls, { types: ['lease.issued'], pagesMax: PAGES_MAX }, signal)
  }).value
  const rows = past.kind === 'answered' ? past.answer.rows : null
  const rebalances = useMemo(() => (rows === null ? [] : rebalancesOf(rows)), [rows])
  if (rebalances.length === 0) return null
  return (
    <Section title={`Last moves${cutText(past, PAGES_MAX)}`}>
      <table class="events">
        <tbody>
          {rebalances.slice(0, REBALANCES_SHOWN).map(({ atMs, moves, count }) => (
            <tr key={atMs}>
              <td class="dim">{momentText(atMs)}</td>
              <td>
                <Mark name="transferred" isSilent /> {plural(count, 'session')}
              </td>
              <td>
                {moves.map(({ from, to, count: moved }) => (
                  <span class="move" key={`${from} ${to}`}>
                    <bdi>{visibleName(from)}</bdi> → <bdi>{visibleName(to)}</bdi> {moved}
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}

interface NodeLoad {
  readonly id: string
  readonly name: string | null
  /** `silent`: it owns something and shows no heartbeat. */
  readonly state: 'ready' | 'not_ready' | 'draining' | 'silent'
  readonly weight: number
  readonly sessions: readonly NodeSession[]
  /** Null: it has none, or none that is a lease. */
  readonly heartbeat: LeaseInfo | null
}

interface NodeSession {
  readonly name: string
  /** Null: a key of polling services, of which there is no other view. */
  readonly resource: Resource | null
}

function nodesOf(leases: Iterable<LeaseInfo>): readonly NodeLoad[] {
  const heartbeats = new Map<string, LeaseInfo>()
  const draining = new Set<string>()
  const sessions = new Map<string, NodeSession[]>()
  for (const lease of leases) {
    if (lease.state !== 'active') continue
    const kind = kindOf(lease.resource)
    if (kind === 'node') heartbeats.set(nameOf(lease.resource), lease)
    else if (kind === 'drain') draining.add(nameOf(lease.resource))
    else if (kind === 'session') {
      const { holder, resource } = lease
      const own = sessions.get(holder) ?? []
      own.push({ name: nameOf(resource), resource })
      sessions.set(holder, own)
    }
  }
  const ids = new Set([...heartbeats.keys(), ...draining, ...sessions.keys()])
  return [...ids].toSorted().map((id) => {
    const heartbeat = heartbeats.get(id) ?? null
    const weight = Number(heartbeat?.metadata?.['weight'] ?? 1)
    const name = heartbeat?.metadata?.['name']
    return {
      ...{ id, heartbeat, weight: weight > 0 ? weight : 1, sessions: sessions.get(id) ?? [] },
      name: typeof name === 'string' ? name : null,
      state: draining.has(id) ? 'draining' : heartbeat === null ? 'silent' : 'ready',
    }
  })
}

function pollNodesOf({ nodes, sessions }: AnswerOf<'fleet'>): readonly NodeLoad[] {
  return nodes.map(({ instanceId: id, name, state, weight }) => ({
    ...{ id, name, state, weight: weight ?? 1, heartbeat: null },
    sessions: sessions
      .filter(({ ownerId }) => ownerId === id)
      .map(({ sessionId }) => ({ name: sessionId, resource: null })),
  }))
}

interface Rebalance {
  readonly atMs: number
  /** `from → to` and how many. */
  readonly moves: readonly { readonly from: string; readonly to: string; readonly count: number }[]
  readonly count: number
}

/** Handovers that follow each other within this time are one rebalance. */
const TOGETHER_MS = 5_000

/** The newest first. `rows` in order of commit. */
function rebalancesOf(rows: readonly LedgerRow[]): readonly Rebalance[] {
  const owners = new Map<Resource, string>()
  const groups: { atMs: number; untilMs: number; moves: Map<string, number> }[] = []
  for (const { event } of rows) {
    if (kindOf(event.resource) !== 'session') continue
    if (event.type === 'lease.issued') {
      const before = owners.get(event.resource)
      owners.set(event.resource, event.holder)
      if (before === undefined || before === event.holder) continue
      const last = groups.at(-1)
      const isSame = last !== undefined && event.atMs - last.untilMs < TOGETHER_MS
      const group = isSame ? last : { atMs: event.atMs, untilMs: event.atMs, moves: new Map() }
      if (!isSame) groups.push(group)
      group.untilMs = event.atMs
      const move = `${before}\n${event.holder}`
      group.moves.set(move, (group.moves.get(move) ?? 0) + 1)
    }
  }
  return groups.toReversed().map(({ atMs, moves }) => {
    const named = [...moves].map(([move, count]) => {
      const [from = '', to = ''] = move.split('\n')
      return { from, to, count }
    })
    return { atMs, moves: named, count: named.reduce((sum, { count }) => sum + count, 0) }
  })
}
