export const GROUP_FUNCTIONS = ''
