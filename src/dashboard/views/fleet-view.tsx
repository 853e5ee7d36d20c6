/** Instances that share sessions: who is there, how much each has, and how sessions moved. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { nameOf } from '../../core/resource.ts'
import { useFeed } from '../feed-context.ts'
import { Mark } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { TimeLeft } from '../parts/time-left.tsx'
import { countText, momentText, plural, visibleName } from '../parts/words.ts'
import { nodesOf, rebalancesOf, type NodeLoad } from '../state/fleet-nodes.ts'
import { cutText, readHistory } from '../state/history.ts'
import { useAsked } from '../state/use-asked.ts'
import { Section } from './resource-view.tsx'

const READ_AGAIN_MS = 5_000
const SESSIONS_SHOWN = 60
const REBALANCES_SHOWN = 20
const PAGES_MAX = 5

export function FleetView(): JSX.Element {
  const feed = useFeed()
  const version = feed.version.value
  const nodes = useMemo(() => nodesOf(feed.leases.all()), [version])
  const total = nodes.reduce((sum, { sessions }) => sum + sessions.length, 0)
  const weights = nodes.reduce(
    (sum, { weight, state }) => sum + (state === 'ready' ? weight : 0),
    0,
  )
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Fleet</h1>
        <p class="dim">
          {plural(nodes.length, 'node')}, {plural(total, 'session')}
        </p>
      </header>
      {nodes.length === 0 ? (
        <p class="empty">
          No fleet runs on this store. <code>tenure fleet run</code> starts an instance of one.
        </p>
      ) : null}
      <div class="cards">
        {nodes.map((node) => (
          <NodeCard
            key={node.id}
            node={node}
            fair={weights === 0 ? 0 : (total * node.weight) / weights}
          />
        ))}
      </div>
      <Rebalances />
    </main>
  )
}

const STATE_MARKS = { ready: 'held', draining: 'revoking', silent: 'expired' } as const

function NodeCard({ node, fair }: { node: NodeLoad; fair: number }): JSX.Element {
  const { id, name, state, weight, sessions, heartbeat } = node
  const load = fair === 0 ? 0 : sessions.length / fair
  return (
    <article class="card">
      <header>
        <Mark name={STATE_MARKS[state]} isSilent />
        <HolderLink name={id} />
        <span class="dim">{state}</span>
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
      {heartbeat === null ? (
        <p class="problem">No heartbeat</p>
      ) : (
        <p class="beat">
          <span class="dim">heartbeat</span> <TimeLeft lease={heartbeat} />
        </p>
      )}
      <p class="chips">
        {sessions.slice(0, SESSIONS_SHOWN).map(({ id: leaseId, resource }) => (
          <ResourceLink key={leaseId} name={resource} label={nameOf(resource)} />
        ))}
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
