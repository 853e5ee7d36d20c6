/** Instances that share sessions: who is there, how much each has, and how sessions moved. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { readAnswer, type AnswerOf } from '../../protocol/answers.ts'
import { useFeed } from '../feed-context.ts'
import type { MarkName } from '../parts/mark-name.ts'
import { Mark } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { TimeLeft } from '../parts/time-left.tsx'
import { countText, momentText, plural, visibleName } from '../parts/words.ts'
import { nodesOf, pollNodesOf, rebalancesOf, type NodeLoad } from '../state/fleet-nodes.ts'
import { cutText, readHistory } from '../state/history.ts'
import { route } from '../state/route.ts'
import { useAsked, type Asked } from '../state/use-asked.ts'
import { pathWith, ProblemError } from '../wire/server-calls.ts'
import { Section } from './resource-view.tsx'

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

/** Where the store has such keys; their prefix is in the address, or the usual one. */
function usePollFleet(): Asked<AnswerOf<'fleet'>> {
  const feed = useFeed()
  const prefix = route.value.params.get('prefix') ?? 'poll'
  const version = Math.floor(feed.nowMs.value / READ_AGAIN_MS)
  return useAsked(`fleet ${prefix}`, version, async (signal) => {
    const path = pathWith(`/v1/fleets/${encodeURIComponent(prefix)}`, { layout: 'poll' })
    try {
      return readAnswer('fleet', await feed.calls.json(path, { signal }))
    } catch (error) {
      const isElsewhere = error instanceof ProblemError && [403, 404].includes(error.status)
      if (isElsewhere) return { nodes: [], sessions: [] }
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
