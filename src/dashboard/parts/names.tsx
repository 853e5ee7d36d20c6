/** Names that others chose: shown as text and nothing else, in their own direction, whole in the tip. */
import type { JSX } from 'preact'
import { linkTo, linkToResource } from '../state/route.ts'
import { visibleName } from './words.ts'

interface NameProps {
  readonly name: string
}

export function Name({ name }: NameProps): JSX.Element {
  const shown = visibleName(name)
  return (
    <bdi class="name" title={shown}>
      {shown}
    </bdi>
  )
}

interface LinkProps extends NameProps {
  /** What is shown of it where it stands in its folder. */
  readonly label?: string
  /** Reached through the row that it stands in. */
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
