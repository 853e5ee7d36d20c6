/** The wait-for graph as a picture; cycles are marked, and the deadlocks that were broken are listed. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { useFeed, isDeadlock } from '../state/live-feed.ts'
import { CyclePicture } from '../parts/cycle-picture.tsx'
import { Mark, MarkAt } from '../parts/marks.tsx'
import { momentText, plural, shortName, visibleName } from '../parts/words.ts'
import { readHistory } from '../state/history.ts'
import { useAsked } from '../state/questions.ts'
import { linkTo, linkToResource } from '../state/route.ts'
import {
  placed,
  waitEdgesOf,
  type GraphEdge,
  type PlacedNode,
  type WaitEdges,
} from '../state/wait-edges.ts'
import type { LedgerRow } from '../wire/answers.ts'
import { Section } from './resource-view.tsx'

const NODE_HEIGHT = 28
/** As wide as its longest name, up to a part of the window; longer names take two lines. */
const NODE_WIDTH = { least: 120, narrow: 190, part: 0.28 }
const CHARACTER = 7.3
const SMALL_CHARACTER = 6.7
const GAP = { x: 70, y: 14 }
const MARGIN = 20

export function WaitsView(): JSX.Element {
  const feed = useFeed()
  const version = feed.version.value
  const graph = useMemo(() => waitEdgesOf(feed.leases.all()), [version])
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Who waits for whom</h1>
        <p class="legend">
          <span>
            <Mark name="waiting" isSilent /> waits for
          </span>
          <span>
            <Mark name="held" isSilent /> held by
          </span>
          <span>
            <Mark name="deadlock" isSilent /> in a cycle
          </span>
          <a class="end" href={linkTo('now', { state: 'waiting' })}>
            {plural(graph.waiting, 'request')} waiting
          </a>
        </p>
      </header>
      {graph.nodes.length === 0 ? <p class="empty">No request waits.</p> : <Graph graph={graph} />}
      <Deadlocks />
    </main>
  )
}

function Graph({ graph }: { graph: WaitEdges }): JSX.Element {
  const nodes = useMemo(() => placed(graph), [graph])
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const columns = Math.max(...nodes.map(({ column }) => column)) + 1
  const rows = Math.max(...nodes.map(({ row }) => row)) + 1
  const longest = Math.max(...nodes.map(({ name }) => visibleName(name).length))
  const wanted = Math.ceil(longest * CHARACTER) + 36
  const most = Math.max(NODE_WIDTH.narrow, Math.floor(innerWidth * NODE_WIDTH.part))
  const nodeWidth = Math.min(most, Math.max(NODE_WIDTH.least, wanted))
  const width = 2 * MARGIN + columns * nodeWidth + (columns - 1) * GAP.x
  const height = 2 * MARGIN + rows * (NODE_HEIGHT + GAP.y) + (graph.stuck.size > 0 ? 30 : 0)
  return (
    <div
      class="graph"
      tabIndex={0}
      role="group"
      aria-label={`${plural(graph.edges.length, 'edge')} of waits`}
    >
      <svg width={width} height={height}>
        <Arrows />
        {graph.edges.map((edge) => (
          <Edge
            key={`${edge.from}\n${edge.to}`}
            edge={edge}
            nodes={byId}
            stuck={graph.stuck}
            nodeWidth={nodeWidth}
          />
        ))}
        {nodes.map((node) => (
          <Node key={node.id} node={node} isStuck={graph.stuck.has(node.id)} width={nodeWidth} />
        ))}
      </svg>
    </div>
  )
}

function Arrows(): JSX.Element {
  return (
    <defs>
      {(['waits', 'held_by', 'stuck'] as const).map((name) => (
        <marker
          key={name}
          id={`arrow-${name}`}
          class={`arrow-head ${name}`}
          viewBox="0 0 8 8"
          refX={7}
          refY={4}
          markerWidth={7}
          markerHeight={7}
          orient="auto"
        >
          <path d="M0 0.5 7.5 4 0 7.5Z" />
        </marker>
      ))}
    </defs>
  )
}

function cornerOf(
  { column, row }: PlacedNode,
  width: number,
): { readonly x: number; readonly y: number } {
  return {
    x: MARGIN + column * (width + GAP.x),
    y: MARGIN + row * (NODE_HEIGHT + GAP.y),
  }
}

interface EdgeProps {
  readonly edge: GraphEdge
  readonly nodes: ReadonlyMap<string, PlacedNode>
  readonly stuck: ReadonlySet<string>
  readonly nodeWidth: number
}

function Edge({ edge, nodes, stuck, nodeWidth }: EdgeProps): JSX.Element | null {
  const from = nodes.get(edge.from)
  const to = nodes.get(edge.to)
  if (from === undefined || to === undefined) return null
  const start = cornerOf(from, nodeWidth)
  const end = cornerOf(to, nodeWidth)
  const y1 = start.y + NODE_HEIGHT / 2
  const y2 = end.y + NODE_HEIGHT / 2
  const isBack = to.column <= from.column
  const kind = stuck.has(from.id) && stuck.has(to.id) ? 'stuck' : edge.kind
  const [x1, x2] = [start.x + nodeWidth, end.x]
  const bend = isBack ? 46 : (x2 - x1) / 2
  const low = Math.max(y1, y2) + NODE_HEIGHT + 8
  const path = isBack
    ? `M${x1} ${y1}C${x1 + bend} ${y1} ${x1 + bend} ${low} ${x1 - 30} ${low}L${x2 + 30} ${low}C${x2 - bend} ${low} ${x2 - bend} ${y2} ${x2 - 2} ${y2}`
    : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 2} ${y2}`
  return <path class={`edge ${edge.kind} ${kind}`} d={path} marker-end={`url(#arrow-${kind})`} />
}

interface NodeProps {
  readonly node: PlacedNode
  readonly isStuck: boolean
  readonly width: number
}

function Node({ node, isStuck, width }: NodeProps): JSX.Element {
  const { x, y } = cornerOf(node, width)
  const { kind, name } = node
  const room = width - (isStuck ? 34 : 22)
  const text = visibleName(name)
  const isLong = text.length * CHARACTER > room
  const charactersMax = isLong ? 2 * Math.floor(room / SMALL_CHARACTER) : Infinity
  const link = kind === 'holder' ? linkTo('now', { holder: name }) : linkToResource(name)
  return (
    <g transform={`translate(${x} ${y})`}>
      <a class={isStuck ? `node ${kind} stuck` : `node ${kind}`} href={link}>
        <rect width={width} height={NODE_HEIGHT} rx={kind === 'holder' ? 14 : 3} />
        <foreignObject x={isStuck ? 24 : 12} width={room} height={NODE_HEIGHT}>
          <bdi {...(isLong ? { class: 'long' } : {})} title={text}>
            {shortName(text, charactersMax)}
          </bdi>
        </foreignObject>
        {isStuck ? <MarkAt name="deadlock" x={15} y={NODE_HEIGHT / 2} /> : null}
      </a>
    </g>
  )
}

const SHOWN_MAX = 20

function Deadlocks(): JSX.Element | null {
  const feed = useFeed()
  const count = feed.log.deadlocks.length
  const past = useAsked('deadlocks', count, (signal) => {
    return readHistory(feed.calls, { types: ['lease.failed'], pagesMax: 1 }, signal)
  }).value
  void feed.version.value
  if (past.kind !== 'answered') return null
  const rows = past.answer.rows.filter(({ event }) => isDeadlock(event)).slice(-SHOWN_MAX)
  if (rows.length === 0) return null
  return (
    <Section title="Deadlocks that were broken">
      {rows.toReversed().map((row) => (
        <Broken key={row.position} row={row} />
      ))}
    </Section>
  )
}

function Broken({ row: { event } }: { row: LedgerRow }): JSX.Element {
  const cycle = event.type === 'lease.failed' ? (event.cycle ?? []) : []
  return (
    <article class="card wide">
      <p>
        <span class="dim">{momentText(event.atMs)}</span>{' '}
        <bdi class="strong">{visibleName(event.holder)}</bdi> was refused, being the last to ask.
      </p>
      <CyclePicture steps={cycle} />
    </article>
  )
}
