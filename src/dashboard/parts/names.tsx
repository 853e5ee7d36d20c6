/** Names that users chose: shown as text only, each in its own direction, in full length in the tooltip. */
import type { JSX } from 'preact'
import { linkTo, linkToResource } from '../state/route.ts'
import { visibleName } from './words.ts'

interface LinkProps {
  readonly name: string
  /** Shown instead of the name, where its folder is shown above it. */
  readonly label?: string
  /** Part of a row, which the keyboard reaches as a whole. */
  readonly isInRow?: boolean
}

export function ResourceLink({ name, label = name, isInRow = false }: LinkProps): JSX.Element {
  return (
    <a class="resource" href={linkToResource(name)} {...(isInRow ? { tabIndex: -1 } : {})}>
      <bdi title={visibleName(name)}>{visibleName(label)}</bdi>
    </a>
  )
}

export function HolderLink({ name, isInRow = false }: LinkProps): JSX.Element {
  return (
    <a class="holder" href={linkTo('now', { holder: name })} {...(isInRow ? { tabIndex: -1 } : {})}>
      <bdi title={visibleName(name)}>{visibleName(name)}</bdi>
    </a>
  )
}
