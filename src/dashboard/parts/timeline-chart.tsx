/**
 * Lanes over time. A bar is a hold, a thin line before it the wait for it, ticks in it are renewals; how it ended stands at
 * its end as a sign of its own shape. Only the lanes that can be seen are drawn.
 */
import type { JSX, TargetedKeyboardEvent, TargetedPointerEvent, TargetedWheelEvent } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { useSignal, type Signal } from '@preact/signals'
import { linkTo, linkToResource } from '../state/route.ts'
import { firstMs, type Hold, type Lane } from '../state/holds.ts'
import {
  barOf,
  inside,
  labelOf,
  LANE_PADDING,
  lanePlacesOf,
  TRACK_HEIGHT,
  timeAt,
  timeLines,
  xOf,
  type LanePlace,
  type LanesShown,
  type TimeScale,
  type TimeWindow,
} from './timeline-layout.ts'
import { Mark, MARK_WORDS, MarkAt } from './marks.tsx'
import { clockText, shortName, spanText, visibleName } from './words.ts'

const HEAD_HEIGHT = 26
const TICKS_MAX = 60
/** A time that is cut off at the edge would be read as another one. */
const LAST_LABEL_WIDTH = 45

interface ChartProps {
  readonly lanes: readonly Lane[]
  readonly by: 'resource' | 'holder'
  readonly label: LanesShown['label']
  readonly window: TimeWindow
  readonly nowMs: number
  /** Absent: the picture stays as it is. */
  readonly onWindow?: (window: TimeWindow) => void
}

interface Tip {
  readonly hold: Hold
  readonly x: number
  readonly y: number
}

export function TimelineChart(props: ChartProps): JSX.Element {
  const { lanes, by, label, window, nowMs, onWindow } = props
  const frame = useRef<HTMLDivElement>(null)
  const { width, height, top } = useFrame(frame)
  const tip = useSignal<Tip | null>(null)
  const namesWidth = Math.min(260, Math.max(110, width.value * 0.24))
  const scale = { ...window, width: Math.max(60, width.value - namesWidth - 16) }
  const shown = { label, scale, nowMs, nameWidth: namesWidth - 24 }
  const places = lanePlacesOf(lanes, shown)
  const total = places.at(-1)?.endY ?? 0
  const seen = places.filter(({ y, endY }) => endY >= top.value && y <= top.value + height.value)
  const moves = onWindow === undefined ? {} : movesOf(scale, namesWidth, onWindow)
  return (
    <div
      class={onWindow === undefined ? 'chart still' : 'chart'}
      ref={frame}
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      onPointerLeave={() => (tip.value = null)}
      tabIndex={0}
      role="group"
      aria-label={`Timeline of ${lanes.length} lanes; arrows move it, plus and minus zoom`}
      {...moves}
    >
      <svg class="axis" width={width.value} height={HEAD_HEIGHT} aria-hidden="true">
        {timeLines(scale)
          .filter(({ atMs }) => xOf(scale, atMs) < scale.width - LAST_LABEL_WIDTH)
          .map(({ atMs, label }) => (
            <text key={atMs} x={namesWidth + xOf(scale, atMs) + 4} y={17}>
              {label}
            </text>
          ))}
      </svg>
      <svg class="lanes" width={width.value} height={Math.max(total, 40)}>
        <Lines scale={scale} left={namesWidth} height={Math.max(total, 40)} nowMs={nowMs} />
        {seen.map((place) => (
          <LaneRow key={place.lane.name} {...{ place, by, shown, tip }} namesWidth={namesWidth} />
        ))}
      </svg>
      <TipCard tip={tip} nowMs={nowMs} />
    </div>
  )
}

interface Frame {
  readonly width: Signal<number>
  readonly height: Signal<number>
  readonly top: Signal<number>
}

function useFrame(frame: { readonly current: HTMLDivElement | null }): Frame {
  const width = useSignal(900)
  const height = useSignal(600)
  const top = useSignal(0)
  useLayoutEffect(() => {
    const element = frame.current
    if (element === null) return
    const observer = new ResizeObserver(() => {
      width.value = element.clientWidth
      height.value = element.clientHeight
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return { width, height, top }
}

const ZOOM = 1.25
const STEP = 0.15

interface Moves {
  readonly onWheel: (event: TargetedWheelEvent<HTMLDivElement>) => void
  readonly onKeyDown: (event: TargetedKeyboardEvent<HTMLDivElement>) => void
  readonly onPointerDown: (event: TargetedPointerEvent<HTMLDivElement>) => void
  readonly onPointerMove: (event: TargetedPointerEvent<HTMLDivElement>) => void
}

/** Ctrl and the wheel zoom where the pointer is, dragging moves, and so do the keys. */
function movesOf(scale: TimeScale, left: number, onWindow: (window: TimeWindow) => void): Moves {
  const zoom = (factor: number, atMs: number): void => {
    onWindow({
      fromMs: atMs - (atMs - scale.fromMs) * factor,
      toMs: atMs + (scale.toMs - atMs) * factor,
    })
  }
  const move = (byMs: number): void => {
    onWindow({ fromMs: scale.fromMs + byMs, toMs: scale.toMs + byMs })
  }
  const spanMs = scale.toMs - scale.fromMs
  const middle = (scale.fromMs + scale.toMs) / 2
  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => move(-STEP * spanMs),
    ArrowRight: () => move(STEP * spanMs),
    '+': () => zoom(1 / ZOOM, middle),
    '=': () => zoom(1 / ZOOM, middle),
    '-': () => zoom(ZOOM, middle),
  }
  return {
    onWheel: (event) => {
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY)
      if (!event.ctrlKey && !isSideways) return
      event.preventDefault()
      if (isSideways) return move((event.deltaX / scale.width) * spanMs)
      const x = event.clientX - event.currentTarget.getBoundingClientRect().left - left
      zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, timeAt(scale, x))
    },
    onKeyDown: (event) => {
      const act = keys[event.key]
      if (act === undefined) return
      event.preventDefault()
      act()
    },
    onPointerDown: (event) => {
      const isOnBar = event.target instanceof Element && event.target.closest('a') !== null
      if (!isOnBar) event.currentTarget.setPointerCapture(event.pointerId)
    },
    onPointerMove: (event) => {
      if (!event.currentTarget.hasPointerCapture(event.pointerId)) return
      if (event.movementX !== 0) move((-event.movementX / scale.width) * spanMs)
    },
  }
}

interface LinesProps {
  readonly scale: TimeScale
  readonly left: number
  readonly height: number
  readonly nowMs: number
}

function Lines({ scale, left, height, nowMs }: LinesProps): JSX.Element {
  const now = left + xOf(scale, nowMs)
  return (
    <g aria-hidden="true">
      {timeLines(scale).map(({ atMs }) => {
        const x = Math.round(left + xOf(scale, atMs)) + 0.5
        return <line key={atMs} class="hour" x1={x} x2={x} y1={0} y2={height} />
      })}
      {nowMs > scale.fromMs && nowMs < scale.toMs ? (
        <line class="now" x1={now} x2={now} y1={0} y2={height} />
      ) : null}
    </g>
  )
}

interface LaneProps {
  readonly place: LanePlace
  readonly by: 'resource' | 'holder'
  readonly shown: LanesShown
  readonly namesWidth: number
  readonly tip: Signal<Tip | null>
}

function LaneRow({ place, by, shown, namesWidth, tip }: LaneProps): JSX.Element {
  const { lane, tracks, y, endY, nameCharacters } = place
  const name = visibleName(lane.name)
  const { scale, nowMs } = shown
  const height = endY - y
  const link = by === 'resource' ? linkToResource(lane.name) : linkTo('now', { holder: lane.name })
  return (
    <g transform={`translate(0 ${y})`}>
      <line
        class="rule"
        x1={0}
        x2={namesWidth + scale.width + 16}
        y1={height - 0.5}
        y2={height - 0.5}
      />
      <foreignObject
        x={12}
        y={LANE_PADDING / 2}
        width={namesWidth - 24}
        height={height - LANE_PADDING}
      >
        <a class={nameCharacters === null ? 'lane-name' : 'lane-name long'} href={link}>
          <bdi title={name}>{shortName(name, nameCharacters ?? Infinity)}</bdi>
        </a>
      </foreignObject>
      <svg
        x={namesWidth}
        y={LANE_PADDING / 2}
        width={scale.width + 16}
        height={height - LANE_PADDING}
      >
        {tracks.map((track) => (
          <g key={track.y} transform={`translate(0 ${track.y})`}>
            {track.holds
              .filter((hold) => isInside(hold, scale, nowMs))
              .map((hold) => (
                <HoldBar
                  key={hold.leaseId}
                  {...{ hold, shown, tip }}
                  isBelow={track.below.has(hold.leaseId)}
                />
              ))}
          </g>
        ))}
      </svg>
    </g>
  )
}

function isInside(hold: Hold, { fromMs, toMs }: TimeWindow, nowMs: number): boolean {
  return firstMs(hold) <= toMs && (hold.endedAtMs ?? nowMs) >= fromMs
}

interface BarProps {
  readonly hold: Hold
  readonly shown: LanesShown
  /** Its name stands below it. */
  readonly isBelow: boolean
  readonly tip: Signal<Tip | null>
}

function HoldBar({ hold, shown, isBelow, tip }: BarProps): JSX.Element {
  const { askedAtMs, grantedAtMs, endedAtMs, end, renewedAtMs, isShared, resource } = hold
  const { scale, nowMs } = shown
  const { x, width } = barOf(hold, shown)
  const endX = inside(scale, endedAtMs ?? nowMs)
  const middle = TRACK_HEIGHT / 2
  const ticks = renewedAtMs.length > TICKS_MAX ? [] : renewedAtMs
  return (
    <a
      class={`hold ${end ?? 'live'}`}
      href={linkToResource(resource)}
      tabIndex={-1}
      aria-label={holdText(hold, nowMs)}
      onPointerMove={(event) => (tip.value = { hold, x: event.clientX, y: event.clientY })}
      onPointerLeave={() => (tip.value = null)}
    >
      {askedAtMs === null ? null : (
        <line
          class="wait"
          x1={inside(scale, askedAtMs)}
          x2={grantedAtMs === null ? endX : x}
          y1={middle}
          y2={middle}
        />
      )}
      {grantedAtMs === null ? null : (
        <>
          <rect
            class={isShared ? 'bar shared' : 'bar'}
            x={x}
            y={3}
            width={width}
            height={16}
            rx={3}
          />
          {ticks.map((atMs) => (
            <line
              key={atMs}
              class="tick"
              x1={inside(scale, atMs)}
              x2={inside(scale, atMs)}
              y1={16}
              y2={19}
            />
          ))}
        </>
      )}
      <Label {...{ hold, shown, isBelow }} />
      {end === null ? null : <MarkAt name={end} x={endX} y={middle} />}
    </a>
  )
}

/** Fewer characters of a name tell nothing. */
const CUT_MIN = 5

function Label({ hold, shown, isBelow }: Omit<BarProps, 'tip'>): JSX.Element | null {
  const name = visibleName(labelOf(hold, shown))
  const { x, width, fromX, characters } = barOf(hold, shown)
  if (!isBelow && name.length > characters && characters < CUT_MIN) return null
  const isCut = !isBelow && name.length > characters
  // Above the line of a wait, in the bar of a hold.
  const y = isBelow ? TRACK_HEIGHT + 9 : hold.grantedAtMs === null ? 8 : 14
  const endX = isBelow ? shown.scale.width : x + width
  return (
    <svg x={fromX} width={Math.max(0, endX - fromX)} height={2 * TRACK_HEIGHT}>
      <text class="label" x={6} y={y} aria-hidden="true">
        {isCut ? `${name.slice(0, characters - 1)}…` : name}
      </text>
    </svg>
  )
}

function holdText(hold: Hold, nowMs: number): string {
  const { resource, holder, grantedAtMs, endedAtMs, end, reason } = hold
  const said = reason === null ? '' : `: ${visibleName(reason)}`
  const what = `${visibleName(resource)}, ${visibleName(holder)}${said}`
  if (grantedAtMs === null) return `${what}, ${end === null ? 'waiting' : MARK_WORDS[end]}`
  const span = spanText((endedAtMs ?? nowMs) - grantedAtMs)
  return `${what}, held for ${span}${end === null ? '' : `, ${MARK_WORDS[end]}`}`
}

function TipCard({ tip, nowMs }: { tip: Signal<Tip | null>; nowMs: number }): JSX.Element | null {
  if (tip.value === null) return null
  const { hold, x, y } = tip.value
  const { resource, holder, reason, askedAtMs, grantedAtMs, endedAtMs, end, renewedAtMs, fence } =
    hold
  const isLeft = x > innerWidth / 2
  const style = {
    top: `${y + 14}px`,
    ...(isLeft ? { right: `${innerWidth - x + 8}px` } : { left: `${x + 8}px` }),
  }
  return (
    <div class="tip" style={style}>
      <p class="what">
        <bdi>{visibleName(resource)}</bdi>
      </p>
      <p>
        <Mark name={end ?? (grantedAtMs === null ? 'waiting' : 'held')} isSilent />{' '}
        <bdi>{visibleName(holder)}</bdi>
        {reason === null ? null : <bdi class="dim"> {visibleName(reason)}</bdi>}
      </p>
      <dl>
        {askedAtMs === null ? null : <Fact name="asked" text={clockText(askedAtMs)} />}
        {grantedAtMs === null || askedAtMs === null ? null : (
          <Fact name="waited" text={spanText(grantedAtMs - askedAtMs)} />
        )}
        {grantedAtMs === null ? null : <Fact name="granted" text={clockText(grantedAtMs)} />}
        {grantedAtMs === null ? null : (
          <Fact name="held for" text={spanText((endedAtMs ?? nowMs) - grantedAtMs)} />
        )}
        {endedAtMs === null || end === null ? null : (
          <Fact name={MARK_WORDS[end]} text={clockText(endedAtMs)} />
        )}
        {renewedAtMs.length === 0 ? null : <Fact name="renewed" text={`${renewedAtMs.length} ×`} />}
        {fence === null ? null : <Fact name="fence" text={String(fence)} />}
      </dl>
    </div>
  )
}

function Fact({ name, text }: { name: string; text: string }): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </>
  )
}
